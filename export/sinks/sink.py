"""Where records go, as the run sees it: written aside first, then visible all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pgrepl.export.record import Record

__all__ = ["Sink"]


class Sink(Protocol):
    """A destination. What was prepared can be made visible after a crash, or told to be."""

    def recover(self, prepared: Mapping[str, Any] | None, batch: int) -> bool:
        """Settle what an earlier run left; whether what it had prepared is visible.

        ``batch`` is the number of the last batch that is known to be visible.
        """

    def write(self, record: Record) -> None:
        """Take a record of the batch in hand; it is not visible."""

    @property
    def is_empty(self) -> bool:
        """Whether the batch in hand has no record."""

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Make the batch in hand durable, not visible; return what ``recover`` needs of it."""

    def commit(self) -> None:
        """Make the batch that is prepared visible."""

    def close(self) -> None:
        """Give up what is not prepared, and let go of everything."""
