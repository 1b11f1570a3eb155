"""Copy tables again that DDL left different from the source's, beside replay.

Each source has a thread of its own while something of it is due. What it does may end at any
moment: the mark on the target stays until the table is copied and goes on, and who starts next
takes it up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby

from pgrepl.config.model import Config
from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning, Interrupted, PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.release import TableCopies
from pgrepl.retry import Backoff
from pgrepl.store.resync.resync_queue import DueTable, note_failure, read_due
from pgrepl.store.sources import SourceRow

__all__ = ["Resyncer"]

logger = logging.getLogger(__name__)

_STAGE = "housekeeping"

#: So often the target is asked what is due of a source.
_INTERVAL_S = 2.0
#: Attempts after a failure begin with the first and end with the second.
_BACKOFF_S = 5.0
_BACKOFF_LIMIT_S = 600.0
#: Who does not end by then, waiting for a server, is left behind.
_PATIENCE_S = 15.0


class Resyncer:
    """Copies what is due, in threads of its own. Use it from one thread; it never fails replay."""

    def __init__(
        self,
        config: Config,
        *,
        interval_s: float = _INTERVAL_S,
        backoff_s: float = _BACKOFF_S,
    ) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._copies = TableCopies(config)
        self._interval_s = interval_s
        self._backoff_s = backoff_s
        self._look_at: dict[int, float] = {}
        self._threads: dict[int, threading.Thread] = {}
        #: When what was marked at a time, and failed, is tried again. Each thread has keys of its
        #: own.
        self._again_at: dict[tuple[int, datetime], float] = {}
        self._is_stopping = threading.Event()

    def look(self, connection: Connection, source: SourceRow) -> None:
        """Begin with what is due of a source, unless that is being done; call it often.

        Returns at once.
        """
        now = time.monotonic()
        if now < self._look_at.get(source.source_id, 0.0) or self._is_stopping.is_set():
            return
        self._look_at[source.source_id] = now + self._interval_s
        thread = self._threads.get(source.source_id)
        if thread is not None and thread.is_alive():
            return
        due = self._due(connection, source)
        if due:
            thread = threading.Thread(
                target=self._run, args=(source, due), name="resync", daemon=True
            )
            self._threads[source.source_id] = thread
            thread.start()

    def finish(self, connection: Connection, source: SourceRow) -> bool:
        """Do what is due of a source, once, and return whether any of it succeeded."""
        return self._run(source, self._due(connection, source))

    def stop(self) -> None:
        """Break off what is in hand; the next start takes it up again."""
        self._is_stopping.set()
        for thread in self._threads.values():
            thread.join(_PATIENCE_S)
        if not any(thread.is_alive() for thread in self._threads.values()):
            # Whoever replays again with it finds it as it was.
            self._is_stopping.clear()

    def _due(self, connection: Connection, source: SourceRow) -> Sequence[DueTable]:
        now = time.monotonic()
        return [
            table
            for table in read_due(connection, source.source_id)
            if not table.is_parked
            and now >= self._again_at.get((source.source_id, table.marked_at), 0.0)
        ]

    def _run(self, source: SourceRow, due: Sequence[DueTable]) -> bool:
        is_any_mended = False
        for _, tables in groupby(due, lambda table: table.marked_at):
            if self._is_stopping.is_set():
                break
            is_any_mended |= self._mend(source, list(tables))
        return is_any_mended

    def _mend(self, source: SourceRow, tables: Sequence[DueTable]) -> bool:
        """Copy tables that one transaction marked; that it fails keeps nobody from the next."""
        names = ", ".join(shown_name(*table.key) for table in tables)
        about = {"source": source.name, "tables": names}
        copied = [table.key for table in tables if table.is_copied]
        void = [table.key for table in tables if not table.is_copied]
        unread: Mapping[tuple[str, str], PgreplError] = {}
        logger.info("resync begins", extra={**about, "reason": tables[0].reason})
        try:
            if copied:
                self._copies.go_on(source.name, copied)
            if void:
                unread = self._copies.copy(source.name, void, self._pause)
        except Interrupted:
            logger.info("resync broken off; the next start takes it up", extra=about)
        except AlreadyRunning as exc:
            logger.info("resync: %s", exc.message, extra=about)
        except PgreplError as exc:
            self._fail(source, tables, _told(exc))
            logger.warning("resync: %s", exc.message, extra={**about, "hint": exc.hint})
        except Exception as exc:  # noqa: BLE001  replay goes on whatever happens here
            self._fail(source, tables, f"unforeseen {type(exc).__name__}")
            logger.error(  # noqa: TRY400  the text may hold a value
                "resync: unforeseen %s", type(exc).__name__, extra=about
            )
        else:
            for table in tables:
                if (error := unread.get(table.key)) is not None:
                    self._fail(source, [table], _told(error))
                    logger.warning("resync: %s", error.message, extra={**about, "hint": error.hint})
            logger.info("resync done", extra=about)
            return len(unread) < len(tables)
        return False

    def _fail(self, source: SourceRow, tables: Sequence[DueTable], error: str) -> None:
        """Leave the tables alone for a while, longer each time, and let status tell why."""
        backoff = Backoff(self._backoff_s, _BACKOFF_LIMIT_S, tables[0].attempt_count)
        self._again_at[source.source_id, tables[0].marked_at] = time.monotonic() + backoff.fail()
        target = self._config.target.endpoint
        with (
            suppress(PgreplError),
            connect(target, _STAGE) as connection,
            translated(target, "cannot note the failure"),
        ):
            note_failure(connection, source.source_id, tables, error)

    def _pause(self, seconds: float) -> None:
        if self._is_stopping.wait(seconds):
            raise Interrupted("the resync is broken off")


def _told(error: PgreplError) -> str:
    """Return what status shows of a failure: what is wrong, and what to do about it."""
    return f"{error.message}. {error.hint}" if error.hint else error.message
