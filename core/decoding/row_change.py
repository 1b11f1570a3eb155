"""A single change as values, for who hands changes on instead of applying them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RowChange"]

#: Column to PostgreSQL's text of the value; a column that did not come is not in it.
Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RowChange:
    """An insert, update or delete of a row, or the TRUNCATE of a table."""

    #: One of the actions of ``pgrepl.decoding.changes``.
    action: bytes
    name: tuple[str, str]
    #: The new row; of an update without the columns that are unchanged and stored out of line.
    new: Row | None = None
    #: The old row as far as it came: its replica identity; None: as in the new row, or none.
    old: Row | None = None
    #: Where it stands in the log of the source; None: the format does not say it.
    lsn: int | None = None
