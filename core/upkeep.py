"""Where replay meets housekeeping: the replayer calls it, ``pgrepl.housekeeping`` does it.

Stages do not import one another; ``cli`` brings the two together.
"""

from __future__ import annotations

from typing import Protocol

from pgrepl.source_state import SourceRow

__all__ = ["Upkeep"]


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
