"""Open transactions that have written: the creation of a slot waits for them, in any database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Writer", "read_table_writers", "read_writers", "read_writing"]


@dataclass(frozen=True, slots=True)
class Writer:
    """A row of ``sql/source_writers.sql``."""

    pid: int | None
    role: str | None
    dbname: str | None
    gid: str | None
    seconds: int | None

    def __str__(self) -> str:
        """Return the transaction in words."""
        who = f"prepared transaction '{self.gid}'" if self.gid else f"pid {self.pid}"
        more = [f"of {self.role}" if self.role else "", f"in {self.dbname}" * bool(self.dbname)]
        if self.seconds is not None:
            more.append(f"open for {self.seconds} s")
        return " ".join(filter(None, (who, *more)))


def read_writers(connection: Connection) -> Sequence[Writer]:
    """Return the transactions that a new slot would wait for now."""
    with connection.cursor(row_factory=class_row(Writer)) as cursor:
        return cursor.execute(load_query("pgrepl.catalog", "source_writers")).fetchall()


def read_writing(connection: Connection) -> Sequence[tuple[str, int | None, str | None]]:
    """Return every transaction that has a number now: the number, the session, what it is called.

    One that is prepared has no session but a name.
    """
    rows = connection.execute(load_query("pgrepl.catalog", "writing_transactions"))
    return [(xid, pid, gid) for xid, pid, gid in rows]


def read_table_writers(
    connection: Connection, tables: Collection[int]
) -> Sequence[tuple[str, int | None, str | None]]:
    """Return the same of transactions that may have changed any of some tables, by their OIDs."""
    rows = connection.execute(
        load_query("pgrepl.catalog", "table_writers"), {"tables": list(tables)}
    )
    return [(xid, pid, gid) for xid, pid, gid in rows]
