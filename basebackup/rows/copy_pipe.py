"""Pipe one COPY into another.

Rows go from one libpq to the other as the bytes they came in. The loop is on libpq itself because
psycopg's own COPY takes more than twice as long: 1 million rows of 100 bytes in 3.4 s, not 1.4 s.
They are sent by a few kilobytes, because every send of libpq's is a system call here and a message
to take apart on the target: measured on rows of 110 bytes, a seventh less CPU on all sides.

No call of libpq waits here: psycopg does not let go of the interpreter in them, and a process that
waits for a server must still hear that its owner ended. libpq takes whatever it is given to send
and grows; so that a slow target does not fill the memory, nothing is read while it has too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from select import POLLIN, POLLOUT, poll

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from pgrepl.basebackup.rows.pace import Pace
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translate, translated

__all__ = ["Transferred", "copy_in", "copy_out", "transfer"]


#: libpq sends what is a little more than this at once.
_CHUNK_BYTES = 8000

#: When this much waits, everything must be sent before more is read. Less lets one side wait for
#: the other more often; libpq moves what it holds with each send.
_UNSENT_BYTES = 256 * 1024

#: TLS may have bytes in hand that a socket does not show: it is looked at again after this time.
_LOOK_AGAIN_MS = 100

#: What COPY's binary format ends with.
_NO_MORE_ROWS = (-1).to_bytes(2, "big", signed=True)

#: What libpq is told each time that it is asked for a row.
_ASYNCHRONOUSLY = repeat(1)


@dataclass(frozen=True, slots=True)
class Transferred:
    """How much a COPY carried."""

    row_count: int
    byte_count: int
    #: Whether there are more rows, which were not read.
    is_cut: bool = False


def copy_out(table: SourceTable, first_block: int | None, end_block: int | None) -> Composed:
    """Return the COPY that reads a part of a table: only its own rows, no generated columns."""
    limits: list[Composable] = []
    if first_block is not None:
        limits.append(SQL("t.ctid >= {}::tid").format(Literal(f"({first_block},0)")))
    if end_block is not None:
        limits.append(SQL("t.ctid < {}::tid").format(Literal(f"({end_block},0)")))
    where = SQL(" where ") + SQL(" and ").join(limits) if limits else SQL("")
    return SQL("copy (select {} from {}{}) to stdout{}").format(
        table.selected(["t"]), table.rows, where, _format(table)
    )


def copy_in(table: SourceTable, place: tuple[str, str]) -> Composed:
    """Return the COPY that writes into the table's copy, or what stands for it."""
    return SQL("copy {} ({}) from stdin{}").format(
        Identifier(*place),
        SQL(", ").join(map(Identifier, table.columns)),
        _format(table),
    )


def _format(table: SourceTable) -> SQL:
    # Text is right for every type, but printing and reading it took about 1.6 times as long.
    return SQL(" (format binary)") if table.is_plain else SQL("")


def transfer(
    source: tuple[Endpoint, Connection, Composed],
    target: tuple[Endpoint, Connection, Composed],
    table: SourceTable,
    pace: Pace | None = None,
    most_bytes: int | None = None,
) -> Transferred:
    """Run both COPYs until the source has no more rows, and compare what they counted.

    ``most_bytes``: after about as many the source is told to end, inside a savepoint; the rows that
    were read are written, and those alone.
    """
    source_endpoint, source_connection, out_statement = source
    target_endpoint, target_connection, in_statement = target
    reading, writing = f"cannot read {table}", f"cannot write the copy of {table}"
    with translated(source_endpoint, reading):
        reader = _begin(source_connection, out_statement, pq.ExecStatus.COPY_OUT)
    with translated(target_endpoint, writing):
        writer = _begin(target_connection, in_statement, pq.ExecStatus.COPY_IN)
    byte_count = unsent_bytes = 0
    is_cut = False
    try:
        for chunk in _chunks(reader):
            if most_bytes is not None and byte_count >= most_bytes:
                _cut(source_connection)
                is_cut = True
                break
            if pace is not None:
                pace.spend(len(chunk))
            byte_count += len(chunk)
            unsent_bytes += len(chunk)
            try:
                writer.put_copy_data(chunk)
                if unsent_bytes >= _UNSENT_BYTES:
                    _send(writer)
                    unsent_bytes = 0
            except psycopg.Error as exc:
                raise translate(exc, target_endpoint, writing) from exc
        sent = None if is_cut else _end(reader)
    except psycopg.Error as exc:
        raise translate(exc, source_endpoint, reading) from exc
    with translated(target_endpoint, writing):
        if is_cut and table.is_plain:
            writer.put_copy_data(_NO_MORE_ROWS)
        writer.put_copy_end()
        _send(writer)
        written = _end(writer)
    if sent not in (None, written):
        raise SourceError(f"{source_endpoint} sent {sent} rows of {table}, {written} were written")
    return Transferred(written, byte_count, is_cut)


def _cut(connection: Connection) -> None:
    """Have the server end a COPY, and read what is left of it."""
    connection.cancel_safe()
    reader = connection.pgconn
    for _ in _chunks(reader):
        pass
    # That it was told to end, or had ended just before.
    list(_results(reader))


def _chunks(reader: pq.abc.PGconn) -> Iterator[bytes]:
    """Yield the rows, some at a time, never more bytes than one row over the size."""
    rows: list[memoryview] = []
    held = 0
    for size, row in map(reader.get_copy_data, _ASYNCHRONOUSLY):
        if size > 0:
            rows.append(row)
            held += size
            if held >= _CHUNK_BYTES:
                yield b"".join(rows)
                rows.clear()
                held = 0
        elif size < 0:
            break
        else:
            _wait(reader, POLLIN)
            reader.consume_input()
    if rows:
        yield b"".join(rows)


def _begin(connection: Connection, statement: Composed, expected: pq.ExecStatus) -> pq.abc.PGconn:
    pgconn = connection.pgconn
    result = pgconn.exec_(statement.as_bytes(connection))
    if result.status != expected:
        raise error_from_result(result)
    return pgconn


def _send(writer: pq.abc.PGconn) -> None:
    """Wait until nothing is left to send."""
    while writer.flush():
        _wait(writer, POLLOUT)


def _end(pgconn: pq.abc.PGconn) -> int:
    """Read the results after a COPY and return the rows that its command tag counts."""
    # All of them: the connection is of no use before the last one.
    ended = list(_results(pgconn))
    for result in ended:
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise error_from_result(result)
    return ended[-1].command_tuples or 0


def _results(pgconn: pq.abc.PGconn) -> Iterator[pq.abc.PGresult]:
    while True:
        while pgconn.is_busy():
            _wait(pgconn, POLLIN)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return
        yield result


def _wait(pgconn: pq.abc.PGconn, event: int) -> None:
    """Wait for the server, but not for long: something may be at hand already."""
    poller = poll()
    poller.register(pgconn.socket, event)
    poller.poll(_LOOK_AGAIN_MS)
