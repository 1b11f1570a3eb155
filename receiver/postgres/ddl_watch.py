"""Captured DDL on its way into the spool: what the receiver has to know of it."""

from __future__ import annotations

from pgrepl.config.model import SourceConfig
from pgrepl.ddl_capture.decode.event import decode_event
from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.errors import SpoolError
from pgrepl.receiver.postgres.rule_guard import RuleGuard
from pgrepl.receiver.routing import Router

__all__ = ["DdlWatch"]


class DdlWatch:
    """Looks at rows of the log before what follows them in the stream is received."""

    def __init__(
        self, source: SourceConfig, encoding: str, router: Router, guard: RuleGuard | None
    ) -> None:
        """Have the router know new tables, and the guard stop before what rules do not allow."""
        self._decoder = payload_decoder(source.plugin, encoding)
        self._router = router
        self._guard = guard

    def check(self, stream: StreamDecoder, insert: bytes) -> None:
        """Look at a row of the log, as it came.

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
            for table in event.tables:
                self._router.learn(table.key, table.root)
