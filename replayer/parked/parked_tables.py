"""Parked tables as people see them: what waits, and giving it up; every step is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.payload import Begin, PayloadDecoder
from pgrepl.errors import UsageError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.parked import (
    ParkedTable,
    add_history,
    change_message,
    follow_parking,
    list_parked,
    lock_parked,
    read_messages,
    remove_message,
    stream_payloads,
)
from pgrepl.store.tables.table_marks import mark_resync

__all__ = [
    "ParkedChange",
    "find_parked",
    "hold",
    "read_changes",
    "skip_changes",
]


@dataclass(frozen=True, slots=True)
class ParkedChange:
    """One change that waits."""

    commit_lsn: Lsn
    commit_at: datetime
    action: str
    #: The columns that tell the row: its identity; of an INSERT all it has.
    row: dict[str, str | None]


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
                at = datetime.fromisoformat(begin.commit_at)
                yield ParkedChange(Lsn(begin.commit_lsn), at, action, row)


def skip_changes(
    connection: Connection, endpoint: Endpoint, table: ParkedTable, through: Lsn | None
) -> int:
    """Give up what waits for a table, up to a commit LSN or all of it; the table is parked still.

    What is given up makes the table differ from its source, so it is marked for a resync.
    """
    with translated(endpoint, "cannot skip"), connection.transaction():
        hold(connection, table)
        count = _skip(connection, table, through)
        if count:
            add_history(connection, table, "skip", count, through or table.last_lsn)
            mark_resync(connection, table.source_id, table.name, "changes were skipped")
        reach("parked.before_skip_commit")
    reach("parked.skipped")
    return count


def hold(connection: Connection, table: ParkedTable) -> None:
    """Keep the replayer from adding changes, and others from working it off, until we are done."""
    follow_parking(connection, table.source_id)
    if not lock_parked(connection, table.source_id, table.name):
        raise UsageError(
            f'source "{table.source}": table {shown_name(*table.name)} is not parked any more'
        )


def _read_payloads(
    connection: Connection, table: ParkedTable
) -> Iterator[tuple[PayloadDecoder, bytes, int]]:
    payloads = stream_payloads(connection, table.source_id, table.name)
    for name, encoding, payload, change_count in payloads:
        yield payload_decoder(name, encoding), payload, change_count


def _skip(connection: Connection, table: ParkedTable, through: Lsn | None) -> int:
    """Remove waiting changes of transactions up to one, and return how many."""
    given_up = 0
    for message in read_messages(connection, table.source_id, table.name, through):
        decoder = payload_decoder(message.format, message.encoding)
        kept = [] if through is None else list(_after(decoder, message.payload, through))
        kept_count = sum(not decoder.is_begin(line) for line in kept)
        given_up += message.change_count - kept_count
        if kept_count == message.change_count:
            continue
        if kept:
            change_message(
                *(connection, table.source_id, table.name, message),
                payload=decoder.join(kept),
                change_count=kept_count,
            )
        else:
            remove_message(connection, table.source_id, table.name, message)
    return given_up


def _after(decoder: PayloadDecoder, payload: bytes, through: Lsn) -> Iterator[bytes]:
    """Return the messages of transactions that committed after a position."""
    is_after = False
    for message in decoder.split(payload):
        if decoder.is_begin(message):
            is_after = decoder.read_begin(message).commit_lsn > through
        if is_after:
            yield message
