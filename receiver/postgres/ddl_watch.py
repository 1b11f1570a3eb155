"""Captured DDL on its way into the spool: what the receiver has to know of it."""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.config.model import SourceConfig
from pgrepl.config.rules import Mask
from pgrepl.ddl_capture.decode.ddl_texts import ddl_texts
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.decode.filled import FILLED, find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError
from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.errors import SpoolError
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

    def take(self, stream: StreamDecoder, insert: bytes, codec: str) -> bytes:
        """Look at a row of the log, as it came; return it as it is kept.

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
            if event.tag == "ALTER SCHEMA":
                for table in event.tables:
                    if table.oid is not None:
                        stream.move(table.oid, table.schema, codec)
            self._follow(event)
        return insert

    def _follow(self, event: CapturedEvent) -> None:
        """Know the tables as a command leaves them."""
        for item in event.dropped:
            if item.type == "table" and item.schema is not None:
                self._router.unlearn((item.schema, item.names[-1]))
        for table in event.tables:
            before = None if table.oid is None else self._names.get(table.oid)
            if before is not None and before != table.key:
                self._router.unlearn(before)
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


def _masks(event: CapturedEvent, codec: str) -> Mapping[str, Mask]:
    """Return what takes values of rows out of the texts of an event."""
    return {
        column: Mask("constant", text.encode(codec, "replace").decode(codec))
        for column, text in ddl_texts(event).items()
    }
