"""Where an export begins: at what replay has applied, with the tables as they are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier

from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.errors import DdlError, TargetError, UsageError
from pgrepl.export.tables import Column, ExportedTable
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.postgres.connect import Connection
from pgrepl.store.progress.shard_progress import read_positions
from pgrepl.store.spool.exported_tables import ExportableTable, read_exportable, read_keys
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["ExportStart", "StartTable", "find_start", "find_table", "read_rows"]

_POLL_S = 0.05
#: How long replay may take to come to a place where all shards are even.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class StartTable:
    """A table where an export begins."""

    exported: ExportedTable
    #: Where its copy is.
    place: tuple[str, str]
    #: A partition's rows are its own; a partitioned table has none.
    has_rows: bool


@dataclass(frozen=True, slots=True)
class ExportStart:
    """The position, and the tables at it."""

    seq: int
    lsn: Lsn
    tables: Sequence[StartTable]


@contextmanager
def find_start(
    connection: Connection,
    source_id: int,
    selection: TableSelection,
    *,
    with_rows: bool,
    is_stopping: Callable[[], bool],
) -> Iterator[ExportStart]:
    """Return where all shards are even, in a snapshot of the target that lasts for the block.

    Raises
    ------
    TargetError
        when replay does not come to such a place.
    DdlError
        when a table waits for something, so that it is not as it is at that place.

    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            positions = read_positions(connection, source_id)
            is_even = len({own.applied_seq for own in positions}) == 1
            if is_even and all(own.slice_seq is None for own in positions):
                lsn = min(as_lsn(own.applied_lsn) for own in positions)
                since = lsn if with_rows else None
                tables = _read_tables(connection, source_id, selection, since)
                yield ExportStart(positions[0].applied_seq, lsn, tables)
                return
        if time.monotonic() > end or is_stopping():
            raise TargetError(
                "the shards of replay are not at one place",
                hint="Was replay killed? Start it: pgrepl replay --once",
            )
        time.sleep(_POLL_S)


def find_table(
    connection: Connection, source_id: int, name: tuple[str, str]
) -> ExportedTable | None:
    """Return a table as the target has it now; None: it has not."""
    found = [t for t in read_exportable(connection, source_id) if (t.schema, t.table) == name]
    keys = read_keys(connection, found)
    return next((_exported(table, keys[table.oid], None) for table in found), None)


def read_rows(connection: Connection, table: StartTable) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a table as PostgreSQL prints them."""
    names = [own.name for own in table.exported.columns]
    query = SQL("copy (select {} from only {}) to stdout").format(
        SQL(", ").join(map(Identifier, names)),
        Identifier(*table.place),
    )
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy.rows():
            yield dict(zip(names, row, strict=True))


def _read_tables(
    connection: Connection, source_id: int, selection: TableSelection, since: Lsn | None
) -> Sequence[StartTable]:
    """Return the selected tables; with a position, what their rows contain of what follows it."""
    found = [
        table
        for table in read_exportable(connection, source_id)
        if selection.matches(table.schema, table.table)
    ]
    if not found:
        raise UsageError(
            "no replicated table matches", hint="Name tables as on the source: SCHEMA.TABLE."
        )
    for table in found:
        _check(table, with_rows=since is not None)
    keys = read_keys(connection, found)
    return [
        StartTable(
            _exported(table, keys[table.oid], _start_of(table, since)),
            (table.target_schema, table.target_name),
            table.relkind == "r",
        )
        for table in found
    ]


def _check(table: ExportableTable, *, with_rows: bool) -> None:
    """Refuse a table that is not what it is at replay's position."""
    reason = None
    if table.state != "ready":
        reason = "is not copied yet"
    elif table.parked_kind is not None:
        reason = "is paused" if table.parked_kind == "paused" else "is parked"
    elif table.is_copied_again:
        reason = "is being copied again"
    elif with_rows and table.resync_reason is not None:
        reason = f"has to be copied again ({table.resync_reason})"
    if reason is not None:
        raise DdlError(
            f"table {shown_name(table.schema, table.table)} {reason}, so that an export cannot"
            " begin with it",
            hint="See pgrepl status, and settle that first; or name other tables.",
        )


def _start_of(table: ExportableTable, since: Lsn | None) -> CopyStart | None:
    if since is None or table.start_lsn is None or table.start_lsn <= since:
        return None
    return CopyStart(table.start_lsn, table.start_snapshot)


def _exported(
    table: ExportableTable, key: tuple[str, ...], start: CopyStart | None
) -> ExportedTable:
    return ExportedTable(
        table.schema,
        table.table,
        tuple(
            Column(name, kind, null) for name, kind, null, is_made in table.columns if not is_made
        ),
        key,
        frozenset(name for name, *_, is_made in table.columns if is_made),
        start,
    )
