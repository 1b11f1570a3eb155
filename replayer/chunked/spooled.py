"""Changes of one table, before anybody has read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.replayer.target_table import Table

__all__ = ["SpooledChanges"]


@dataclass(frozen=True, slots=True)
class SpooledChanges:
    """Changes of a table as they stand in the spool, with the begin messages before them."""

    table: Table
    decoder: PayloadDecoder
    messages: Sequence[bytes]

    @property
    def count(self) -> int:
        """How many changes there are."""
        return sum(not self.decoder.is_begin(message) for message in self.messages)
