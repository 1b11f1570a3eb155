"""The replicated tables of a source as the target has them, for who hands their changes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.catalog.unique_keys import find_identity, read_unique_keys
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.parked import ParkingKind
from pgrepl.store.tables.source_tables import TableState

__all__ = ["ExportableTable", "read_exportable", "read_keys"]


@dataclass(frozen=True, slots=True)
class ExportableTable:
    """A row of ``sql/exported_tables.sql``."""

    #: On the source.
    schema: str
    table: str
    state: TableState
    start_lsn: Lsn | None
    start_snapshot: str | None
    #: Why changes of it wait; None: they do not.
    parked_kind: ParkingKind | None
    is_copied_again: bool
    #: Why its rows are not those of the source; None: they are.
    resync_reason: str | None
    target_schema: str
    target_name: str
    oid: int
    relkind: str
    #: Name, type, whether it is NOT NULL, and whether the source generates it.
    columns: Sequence[tuple[str, str, bool, bool]]


def read_exportable(connection: Connection, source_id: int) -> Sequence[ExportableTable]:
    """Return the tables of a source that the target has."""
    with connection.cursor(row_factory=class_row(ExportableTable)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store.spool", "exported_tables"), (source_id,)
        ).fetchall()


def read_keys(
    connection: Connection, tables: Sequence[ExportableTable]
) -> dict[int, tuple[str, ...]]:
    """Return what tells the rows of tables apart, by their oids, in the order of the table."""
    keys = read_unique_keys(connection, [table.oid for table in tables])
    found = {}
    for table in tables:
        key = find_identity(keys.get(table.oid, ()))
        names = () if key is None else key.columns
        found[table.oid] = tuple(name for name, *_ in table.columns if name in names)
    return found
