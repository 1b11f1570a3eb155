"""Apply changes one by one as the source wrote them: DML, TRUNCATE and DDL in their places.

Runs of DML are folded like everything else; TRUNCATE and DDL are barriers between them. This is how
a serial segment is applied, and how a parked table's changes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL

from pgrepl.decoding.changes import TRUNCATE, unreadable
from pgrepl.decoding.payload import Begin, PayloadDecoder
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.shard.apply import TableFailed, told
from pgrepl.replayer.target_table import Table, TableName, Tables
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["Handlers", "LineReplay", "Lines"]

_PARTITIONED = "p"


@dataclass(frozen=True, slots=True)
class Lines:
    """Changes as they stand in the spool, and the begin message of the last one's transaction."""

    decoder: PayloadDecoder
    begin: bytes
    changes: Sequence[bytes]

    def spooled(self, table: Table) -> SpooledChanges:
        """Return them as changes of this table."""
        return SpooledChanges(table, self.decoder, self.changes)


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is done with the changes."""

    #: Apply changes of a table; of one that is copied in chunks, and of records, begin messages
    #: stand among them.
    apply: Callable[[Table, Lines], None]
    #: Note that a table was emptied that is copied in chunks.
    restart: Callable[[TableName], None]
    #: Keep a change of a parked table.
    keep: Callable[[TableName, Lines], None]
    #: Note that a table was never copied.
    note_unknown: Callable[[TableName], None]
    #: Apply a row of the table of captured DDL.
    apply_ddl: Callable[[Lines], None]
    #: Take it that changes of a table cannot be applied, and why.
    fail: Callable[[Table, Lines, TableFailed], None]


@dataclass(frozen=True, slots=True)
class _Truncated:
    """A table that a TRUNCATE names, as far as it is to be emptied."""

    name: TableName
    lines: Lines

    @property
    def restarts_identity(self) -> bool:
        """Whether its sequences start over; the same for all tables of a command."""
        return self.lines.decoder.restarts_identity(self.lines.changes[0])


class LineReplay:
    """Takes payloads in order."""

    def __init__(
        self, connection: Connection, tables: Tables, handlers: Handlers, limit_bytes: int
    ) -> None:
        """Begin with none."""
        self._connection = connection
        self._tables = tables
        self._handlers = handlers
        self._limit_bytes = limit_bytes
        self._decoder: PayloadDecoder | None = None
        self._gathered: dict[TableName, list[bytes]] = {}
        self._contained: dict[TableName, Callable[[int, int], bool]] = {}
        self._size = 0
        self._begin = b""
        #: The transaction of a live table's last change that is gathered.
        self._begin_of: dict[TableName, bytes] = {}
        self._transaction: Begin | None = None
        #: Tables that one TRUNCATE names, and what tells it from others.
        self._truncated: list[_Truncated] = []
        self._truncate_command = b""

    def take_payload(self, decoder: PayloadDecoder, payload: bytes, change_count: int) -> None:
        """Take the changes of a row of the spool."""
        if decoder is not self._decoder:
            self.finish()
            self._decoder = decoder
        messages = decoder.split(payload)
        found = sum(not decoder.is_begin(message) for message in messages)
        if found != change_count:
            raise unreadable(f"a row should have {change_count} changes, it has {found}")
        for message in messages:
            if decoder.is_begin(message):
                self._begin = message
                self._transaction = None
            else:
                self._take(decoder, message)

    def finish(self) -> None:
        """Apply what is left."""
        self._truncate()
        self._flush()

    def _take(self, decoder: PayloadDecoder, message: bytes) -> None:
        if decoder.action_of(message) == TRUNCATE:
            self._take_truncate(decoder, message)
            return
        if self._truncated:
            self._truncate()
        name = decoder.names_of(message)
        if name == DDL_TABLE:
            self._flush()
            self._handlers.apply_ddl(Lines(decoder, self._begin, [message]))
            self._tables.forget()
            self._contained.clear()
            return
        table = self._tables.look_up(name)
        if table.is_parked:
            self._handlers.keep(name, Lines(decoder, self._begin, [message]))
        elif not table.is_copied:
            self._handlers.note_unknown(name)
        elif table.is_live or not self._is_contained(decoder, table):
            if self._begin_of.get(name) != self._begin and (
                table.is_live or decoder.names_records(self._begin)
            ):
                self._begin_of[name] = self._begin
                self._gather(name, self._begin)
            self._gather(name, message)
        if self._size >= self._limit_bytes:
            self._flush()

    def _gather(self, name: TableName, message: bytes) -> None:
        self._gathered.setdefault(name, []).append(message)
        self._size += len(message)

    def _is_contained(self, decoder: PayloadDecoder, table: Table) -> bool:
        """Whether the table's copy contains the transaction already."""
        if table.start is None:
            return False
        contains = self._contained.get(table.name)
        if contains is None:
            contains = self._contained[table.name] = table.start.contains()
        if self._transaction is None:
            self._transaction = decoder.read_begin(self._begin)
        return contains(self._transaction.xid, self._transaction.commit_lsn)

    def _take_truncate(self, decoder: PayloadDecoder, message: bytes) -> None:
        """Gather the tables of one command: they may refer to one another."""
        lines = Lines(decoder, self._begin, [message])
        table = self._tables.look_up(decoder.names_of(message))
        if table.is_applied and table.shape is None and not self._is_contained(decoder, table):
            # It will be parked, this with it, after what came before.
            self._flush()
            table = self._tables.look_up(table.name)
            if table.is_applied:
                self._handlers.apply(table, lines)
                return
        command = decoder.command_of(message)
        if self._truncated and command != self._truncate_command:
            self._truncate()
        self._truncate_command = command
        if table.is_parked:
            self._handlers.keep(table.name, lines)
        elif self._is_wanted(decoder, table):
            self._truncated.append(_Truncated(table.name, lines))

    def _is_wanted(self, decoder: PayloadDecoder, table: Table) -> bool:
        if table.shape is None or not (table.is_applied or table.is_live):
            return False
        if table.is_applied and self._is_contained(decoder, table):
            return False
        # The partitions of a partitioned table are named as well.
        return table.shape.relkind != _PARTITIONED

    def _truncate(self) -> None:
        truncated, self._truncated = self._truncated, []
        if not truncated:
            return
        self._flush()
        emptied: list[tuple[_Truncated, Table]] = []
        for each in truncated:
            # What came before may have parked it.
            table = self._tables.look_up(each.name)
            if table.is_parked:
                self._handlers.keep(each.name, each.lines)
            else:
                emptied.append((each, table))
        # First, for who copies a table in chunks takes its row there before the table too.
        for _, table in emptied:
            if table.is_live:
                self._handlers.restart(table.name)
        try:
            with told(None):
                _truncate(
                    self._connection,
                    [table for _, table in emptied],
                    restarts_identity=truncated[0].restarts_identity,
                )
        except TableFailed:
            for each, table in emptied:
                self._truncate_alone(each, table)

    def _truncate_alone(self, truncated: _Truncated, table: Table) -> None:
        """Empty one table of several of which one cannot be."""
        try:
            with told(table.shape):
                _truncate(self._connection, [table], restarts_identity=truncated.restarts_identity)
        except TableFailed as failed:
            self._handlers.fail(table, truncated.lines, failed)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        self._begin_of.clear()
        self._size = 0
        if self._decoder is None:
            return
        for name, messages in gathered.items():
            lines = Lines(self._decoder, self._begin, messages)
            self._handlers.apply(self._tables.look_up(name), lines)


def _truncate(connection: Connection, tables: Iterable[Table], *, restarts_identity: bool) -> None:
    """Empty tables together: they may refer to one another; after an error none of them is."""
    shapes = [table.shape for table in tables if table.shape is not None]
    if not shapes:
        return
    names = SQL(", ").join(SQL("only {}").format(shape.identifier) for shape in shapes)
    try:
        with connection.transaction():
            connection.execute(
                SQL("truncate {}{}").format(
                    names, SQL(" restart identity" if restarts_identity else "")
                )
            )
    except errors.FeatureNotSupported:
        # A table that is not owned by pgrepl refers to one of them: it would be emptied as well.
        with connection.transaction():
            for shape in shapes:
                connection.execute(SQL("delete from only {}").format(shape.identifier))
