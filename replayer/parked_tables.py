"""Work off parked tables: see what waits, apply it, or give it up; every step is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import OnConflict
from pgrepl.config.naming import shown_name
from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.payload import Begin, PayloadDecoder
from pgrepl.errors import DdlError, UsageError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.parking import count_conflict
from pgrepl.replayer.serial.line_replay import Handlers, LineReplay, Lines
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableFailed, apply_changes
from pgrepl.replayer.target_table import Table, TableName, Tables

__all__ = [
    "ParkedChange",
    "ParkedTable",
    "find_parked",
    "list_parked",
    "read_changes",
    "retry_table",
    "skip_changes",
]


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """A parked table and how much waits for it."""

    source_id: int
    source: str
    schema: str
    table: str
    parked_at: datetime
    sqlstate: str | None
    reason: str
    retry_count: int
    change_count: int
    first_lsn: Lsn | None
    last_lsn: Lsn | None

    @property
    def name(self) -> TableName:
        """Schema and name on the source."""
        return self.schema, self.table


@dataclass(frozen=True, slots=True)
class ParkedChange:
    """One change that waits."""

    commit_lsn: Lsn
    commit_at: str
    action: str
    #: The columns that tell the row: its identity; of an INSERT all it has.
    row: dict[str, str | None]


def list_parked(connection: Connection, source: str | None = None) -> Sequence[ParkedTable]:
    """Return the parked tables, of one source or of all."""
    with connection.cursor(row_factory=class_row(ParkedTable)) as cursor:
        return cursor.execute(
            load_query("pgrepl.replayer", "parked_tables"), {"source": source}
        ).fetchall()


def find_parked(connection: Connection, source: str, name: str) -> ParkedTable:
    """Return one parked table by its name as messages show it.

    Raises
    ------
    UsageError
        when it is not parked.

    """
    for table in list_parked(connection, source):
        if name in (shown_name(*table.name), ".".join(table.name)):
            return table
    raise UsageError(
        f'source "{source}": table {name} is not parked',
        hint="See what is: pgrepl parked list",
    )


def read_changes(connection: Connection, table: ParkedTable) -> Iterator[ParkedChange]:
    """Return the changes that wait, in order."""
    for decoder, payload, _ in _read_payloads(connection, table):
        begin: Begin | None = None
        for message in decoder.split(payload):
            if decoder.is_begin(message):
                begin = decoder.read_begin(message)
            elif begin is not None:
                action = decoder.action_of(message).decode()
                row = dict(decoder.show_row(message))
                yield ParkedChange(Lsn(begin.commit_lsn), begin.commit_at, action, row)


def retry_table(
    connection: Connection,
    endpoint: Endpoint,
    table: ParkedTable,
    on_conflict: OnConflict,
    settings: ReplaySettings,
) -> int:
    """Apply all that waits for a table, in one transaction, and let it go on.

    Raises
    ------
    DdlError
        when it still cannot be applied; everything stays as it was.

    """
    try:
        with translated(endpoint, "cannot retry"), connection.transaction():
            _hold(connection, table)
            count = _apply(connection, table, on_conflict, settings)
            _record(connection, table, "retry", count, None)
            connection.execute(
                "delete from replication.parked_table"
                " where source_id = %s and schema_name = %s and table_name = %s",
                (table.source_id, *table.name),
            )
    except TableFailed as failed:
        connection.execute(
            "update replication.parked_table set retry_count = retry_count + 1,"
            " sqlstate = %s, reason = %s"
            " where source_id = %s and schema_name = %s and table_name = %s",
            (failed.sqlstate, failed.reason, table.source_id, *table.name),
        )
        raise DdlError(
            f'source "{table.source}": table {shown_name(*table.name)}: {failed.reason}',
            hint="Nothing was applied. Fix the table on the target and retry, or give changes up"
            " with pgrepl parked skip.",
        ) from failed
    return count


def skip_changes(
    connection: Connection, endpoint: Endpoint, table: ParkedTable, through: Lsn | None
) -> int:
    """Give up what waits for a table, up to a commit LSN or all of it; the table is parked still.

    What is given up makes the table differ from its source, so it is marked for a resync.
    """
    with translated(endpoint, "cannot skip"), connection.transaction():
        _hold(connection, table)
        count = _skip(connection, table, through)
        if count:
            _record(connection, table, "skip", count, through)
            connection.execute(
                "update replication.source_table set resync_reason ="
                " coalesce(resync_reason, 'changes were skipped')"
                " where source_id = %s and schema_name = %s and table_name = %s",
                (table.source_id, *table.name),
            )
    return count


def _hold(connection: Connection, table: ParkedTable) -> None:
    """Keep the replayer from adding changes, and others from working it off, until we are done."""
    row = connection.execute(
        "select from replication.parked_table"
        " where source_id = %s and schema_name = %s and table_name = %s for update",
        (table.source_id, *table.name),
    ).fetchone()
    if row is None:
        raise UsageError(
            f'source "{table.source}": table {shown_name(*table.name)} is not parked any more'
        )


def _apply(
    connection: Connection, table: ParkedTable, on_conflict: OnConflict, settings: ReplaySettings
) -> int:
    applied = 0

    def apply(own: Table, lines: Lines) -> None:
        nonlocal applied
        outcome = apply_changes(connection, lines.read(own), on_conflict)
        count_conflict(connection, table.source_id, own.name, outcome)
        applied += len(lines.changes)

    def refuse(*_: object) -> None:
        raise TableFailed("the table is not copied")

    def fail(_own: Table, _lines: Lines, failed: TableFailed) -> None:
        raise failed

    handlers = Handlers(apply, refuse, refuse, refuse, fail)
    tables = Tables(connection, table.source_id, Lsn(0), ignores_parking=True)
    replay = LineReplay(connection, tables, handlers, settings.chunk_bytes)
    for decoder, payload, change_count in _read_payloads(connection, table):
        replay.take_payload(decoder, payload, change_count)
    replay.finish()
    return applied


def _read_payloads(
    connection: Connection, table: ParkedTable
) -> Iterator[tuple[PayloadDecoder, bytes, int]]:
    # Holdable, for those who read outside a transaction.
    with connection.cursor("pgrepl_parked", withhold=True, binary=True) as cursor:
        cursor.itersize = 1
        cursor.execute(
            "select format, encoding, payload, change_count from replication.parked_message"
            " where source_id = %s and schema_name = %s and table_name = %s"
            " order by seq, part, piece",
            (table.source_id, *table.name),
        )
        for name, encoding, payload, change_count in cursor:
            yield payload_decoder(name, encoding), payload, change_count


def _skip(connection: Connection, table: ParkedTable, through: Lsn | None) -> int:
    """Remove waiting changes of transactions up to one, and return how many."""
    key = (table.source_id, *table.name)
    rows = connection.execute(
        "select seq, part, piece, change_count, format, encoding, payload"
        " from replication.parked_message"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " and (%s::pg_lsn is null or first_lsn <= %s) order by seq, part, piece",
        (*key, through, through),
    ).fetchall()
    given_up = 0
    for seq, part, piece, change_count, name, encoding, payload in rows:
        decoder = payload_decoder(name, encoding)
        kept = [] if through is None else list(_after(decoder, payload, through))
        kept_count = sum(not decoder.is_begin(message) for message in kept)
        given_up += change_count - kept_count
        if kept_count == change_count:
            continue
        where = (*key, seq, part, piece)
        if kept:
            connection.execute(
                "update replication.parked_message set payload = %s, change_count = %s"
                " where source_id = %s and schema_name = %s and table_name = %s"
                " and seq = %s and part = %s and piece = %s",
                (decoder.join(kept), kept_count, *where),
            )
        else:
            connection.execute(
                "delete from replication.parked_message"
                " where source_id = %s and schema_name = %s and table_name = %s"
                " and seq = %s and part = %s and piece = %s",
                where,
            )
    return given_up


def _after(decoder: PayloadDecoder, payload: bytes, through: Lsn) -> Iterator[bytes]:
    """Return the messages of transactions that committed after a position."""
    is_after = False
    for message in decoder.split(payload):
        if decoder.is_begin(message):
            is_after = decoder.read_begin(message).commit_lsn > through
        if is_after:
            yield message


def _record(
    connection: Connection, table: ParkedTable, action: str, count: int, through: Lsn | None
) -> None:
    connection.execute(
        "insert into replication.parked_history"
        " (source, schema_name, table_name, action, change_count, last_lsn, reason)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        (table.source, *table.name, action, count, through or table.last_lsn, table.reason),
    )
