"""Tables of a source that joined a publication late, as the event triggers note them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["LateTable", "read_late_tables"]


@dataclass(frozen=True, slots=True)
class LateTable:
    """A row of ``sql/late_tables.sql``."""

    oid: int
    schema: str
    name: str
    #: Where the WAL stood when it joined, and the transaction.
    lsn: Lsn
    xid: str
    #: Whether that transaction may have changed rows itself, unsent.
    is_changed: bool


def read_late_tables(connection: Connection) -> Sequence[LateTable]:
    """Read the notes; only where ``PublicationState.may_read_notes``."""
    with connection.cursor(row_factory=class_row(LateTable)) as cursor:
        return cursor.execute(load_query("pgrepl.publications", "late_tables")).fetchall()
