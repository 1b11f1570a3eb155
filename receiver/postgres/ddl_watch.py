"""Captured DDL on its way into the spool: what the receiver has to know of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgrepl.config.model import SourceConfig
from pgrepl.config.rules import Mask
from pgrepl.ddl_capture.apply.statement.subject import altered_tables, renamed_schema
from pgrepl.ddl_capture.decode.ddl_texts import ddl_texts
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.decode.filled import FILLED, find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.errors import SpoolError
from pgrepl.receiver.postgres.moved_tables import MovedTables
from pgrepl.receiver.postgres.rule_guard import RuleGuard
from pgrepl.receiver.routing import Router, TableName
from pgrepl.syntax.parse import SqlSyntaxError

__all__ = ["DdlWatch"]


class DdlWatch:
    """Looks at rows of the log before what follows them in the stream is received."""

    def __init__(
        self,
        source: SourceConfig,
        encoding: str,
        router: Router,
        guard: RuleGuard | None,
        oids: Mapping[TableName, int],
    ) -> None:
        """Have the router know new tables, and the guard stop before what rules do not allow.

        ``oids``: the tables that are known.
        """
        self._decoder = payload_decoder(source.plugin, encoding)
        self._router = router
        self._guard = guard
        self._names = {oid: name for name, oid in oids.items()}
        #: Tables that a change of before may call otherwise.
        self.moved = MovedTables()

    def take(
        self,
        stream: StreamDecoder,
        insert: bytes,
        codec: str,
        losses: dict[TableName, str] | None = None,
    ) -> bytes:
        """Look at a row of the log, as it came; return it as it is kept.

        ``losses``: what tables lost in the transaction so far, which follows them.

        Raises
        ------
        ConfigError
            when values would not be masked any more after it.

        """
        pieces = stream.payload([*stream.heads_of(insert).values(), insert]).pieces
        for message in self._decoder.split(b"".join(pieces)):
            try:
                event = decode_event(self._decoder.read_row(message, "replace"))
            except SpoolError:
                if self._guard is not None:
                    raise
                # Replay says what is wrong with it.
                continue
            if self._guard is not None:
                self._guard.check_event(event)
                insert = stream.mask(insert, _masks(event, codec), codec)
            self._move(stream, event, codec)
            self._follow(event, {} if losses is None else losses)
        return insert

    def _move(self, stream: StreamDecoder, event: CapturedEvent, codec: str) -> None:
        """Know what tables are called from here on whose schema is another, or is renamed."""
        told = _renamed_from(event)
        renamed: dict[TableName, TableName] = {}
        for table in event.tables:
            before = self._names.get(table.oid or 0, table.key)[0]
            was = before if told is None else told
            if table.oid is None or was == table.schema:
                continue
            is_renamed = event.tag == "ALTER SCHEMA"
            stream.move(table.oid, table.schema, was if is_renamed else None, codec)
            if is_renamed:
                renamed[was, table.name] = table.key
        if renamed and not stream.has_heads:
            self.moved.note(stream, renamed)

    def _follow(self, event: CapturedEvent, losses: dict[TableName, str]) -> None:
        """Know the tables as a command leaves them."""
        for item in event.dropped:
            if item.type == "table" and item.schema is not None:
                self._router.unlearn((item.schema, item.names[-1]))
                losses.pop((item.schema, item.names[-1]), None)
        renamed: dict[TableName, TableName] = {}
        for table in event.tables:
            before = None if table.oid is None else self._names.get(table.oid)
            if before is not None and before != table.key:
                self._router.unlearn(before)
                renamed[before] = table.key
        if losses.keys() & renamed.keys():
            _move(losses, renamed, _names_before(event))
        for table in event.tables:
            if table.oid is not None:
                self._names[table.oid] = table.key
            self._router.learn(table.key, table.root)
        if event.kind == "start" and event.tag in FILLED:
            self._follow_filled(event)

    def _follow_filled(self, event: CapturedEvent) -> None:
        """Know a table before the rows that it is made with."""
        try:
            filled = find_filled_table(event)
        except (UnknownStatementError, SqlSyntaxError):
            return
        if not filled.is_temporary:
            self._router.learn(filled.name, filled.name)


def _move(
    losses: dict[TableName, str],
    renamed: Mapping[TableName, TableName],
    told: Collection[TableName],
) -> None:
    """Give losses the names that their tables have now.

    What tables are called is known from the target at first, which may be behind. A name that the
    statement does not tell as well may be another table's by now: the loss is kept there too.
    """
    moved = {now: losses[was] for was, now in renamed.items() if was in losses}
    for was in renamed.keys() & set(told):
        losses.pop(was, None)
    losses.update(moved)


def _renamed_from(event: CapturedEvent) -> str | None:
    """Return what a schema was called that a command renames."""
    if event.tag != "ALTER SCHEMA":
        return None
    try:
        renamed = renamed_schema(find_statement(event).tree)
    except (UnknownStatementError, SqlSyntaxError):
        return None
    return None if renamed is None else renamed[0]


def _names_before(event: CapturedEvent) -> Collection[TableName]:
    """Return what a statement says its tables were called before it."""
    try:
        tree = find_statement(event).tree
    except (UnknownStatementError, SqlSyntaxError):
        return ()
    schema = renamed_schema(tree)
    if schema is not None:
        return [(schema[0], table.name) for table in event.tables]
    return [
        (place, name)
        for given, name in altered_tables(tree)
        for place in ([given] if given else event.path)
    ]


def _masks(event: CapturedEvent, codec: str) -> Mapping[str, Mask]:
    """Return what takes values of rows out of the texts of an event."""
    return {
        column: Mask("constant", text.encode(codec, "replace").decode(codec))
        for column, text in ddl_texts(event).items()
    }
