"""Where replay meets what runs beside it: the replayer calls, ``pgrepl.housekeeping`` does it.

Stages do not import one another; ``cli`` brings the two together.
"""

from __future__ import annotations

from typing import Protocol

from pgrepl.postgres.connect import Connection
from pgrepl.store.sources import SourceRow

__all__ = ["Resync", "Upkeep"]


class Upkeep(Protocol):
    """Tidies up in the background, with connections of its own. It never fails replay."""

    def caught_up(self, source: SourceRow) -> None:
        """Hear that all received of a source is applied; call it as often as that is so.

        Returns at once: what is due is done meanwhile, and not more often than needed.
        """
        ...

    def stop(self, patience_s: float | None = 0.0) -> None:
        """Let go of all locks on tables, as before DDL, or at the end.

        Work in hand gets so long to finish (None: as long as it takes), then it is broken off; it
        is taken up again when the source has caught up the next time.
        """
        ...


class Resync(Protocol):
    """Copies tables again that DDL left different from the source's. It never fails replay."""

    def look(self, connection: Connection, source: SourceRow) -> None:
        """See what is due of a source; call it often. What is due is done meanwhile."""
        ...

    def finish(self, connection: Connection, source: SourceRow) -> bool:
        """Do what is due of a source, once, and return whether any of it succeeded."""
        ...

    def stop(self) -> None:
        """Break off what is in hand; the next start takes it up again."""
        ...
