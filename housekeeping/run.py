"""Do what is due, in a thread of its own, one thing at a time.

An index on a big table takes long, and replay must not wait for it; nor must DDL from the source,
so everything here can be broken off at any moment and is taken up again later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config
from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning, PgreplError, Retry
from pgrepl.housekeeping.capture import prune_log
from pgrepl.housekeeping.history import prune_history
from pgrepl.housekeeping.indexes import find_missing, make_index
from pgrepl.housekeeping.sequences import read_values, set_values
from pgrepl.housekeeping.statistics import analyze, find_stale
from pgrepl.postgres.advisory_locks import take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.sources import SourceRow, read_target_schemas

__all__ = ["Housekeeper"]

logger = logging.getLogger(__name__)

_STAGE = "housekeeping"

#: So often a source is seen to, at most.
_INTERVAL_S = 60.0

#: A source that takes longer is left alone this time.
_SOURCE_PATIENCE_S = 5

#: A statement that is to be cancelled may not have begun yet: it is tried again.
_CANCEL_EVERY_S = 0.05


class _Stopped(Exception):  # noqa: N818  no error: it was asked for
    """The housekeeper is to let go."""


class Housekeeper:
    """Tidies up with connections of its own. Use it from one thread; it never fails replay."""

    def __init__(self, config: Config, *, interval_s: float = _INTERVAL_S) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._interval_s = interval_s
        self._due_at: dict[int, float] = {}
        #: What the thread has still to see to; guarded, as is its end, by the lock.
        self._waiting: dict[int, SourceRow] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = threading.Event()
        self._connection: Connection | None = None
        #: Indexes that could not be made; they are not tried again before the next start.
        self._hopeless: set[tuple[str, str]] = set()

    def caught_up(self, source: SourceRow) -> None:
        """See to a source of which all received is applied; call it as often as that is so.

        Returns at once: what is due is done meanwhile, and not more often than needed.
        """
        now = time.monotonic()
        if now < self._due_at.get(source.source_id, 0.0):
            return
        self._due_at[source.source_id] = now + self._interval_s
        with self._lock:
            self._waiting[source.source_id] = source
            if self._thread is None:
                self._is_stopping.clear()
                self._thread = threading.Thread(target=self._run, name=_STAGE, daemon=True)
                self._thread.start()

    def stop(self, patience_s: float | None = 0.0) -> None:
        """Let go of all locks on tables, as before DDL, or at the end.

        Work in hand gets this time to finish (None: as long as it takes), then it is broken off; it
        is taken up again when the source has caught up the next time.
        """
        thread = self._thread
        if thread is None:
            return
        thread.join(patience_s)
        self._is_stopping.set()
        while thread.is_alive():
            connection = self._connection
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCEL_EVERY_S * 20)
            thread.join(_CANCEL_EVERY_S)

    def _run(self) -> None:
        while (source := self._next()) is not None:
            try:
                self._see_to(source)
            except _Stopped:
                # Whatever is left is due again at once.
                self._due_at.pop(source.source_id, None)
            except AlreadyRunning:
                # A replayer that just ended finishes its work; this source's turn comes again.
                logger.debug("housekeeping: another one is at it", extra={"source": source.name})
            except PgreplError as exc:
                logger.warning(
                    "housekeeping: %s", exc.message, extra={"source": source.name, "hint": exc.hint}
                )
            except Exception as exc:  # noqa: BLE001  replay goes on whatever happens here
                logger.error(  # noqa: TRY400  the text may hold a value
                    "housekeeping: unforeseen %s", type(exc).__name__, extra={"source": source.name}
                )

    def _next(self) -> SourceRow | None:
        """Return the next source to see to; None ends the thread."""
        with self._lock:
            if self._is_stopping.is_set() or not self._waiting:
                for source_id in self._waiting:
                    self._due_at.pop(source_id, None)
                self._waiting.clear()
                self._thread = None
                return None
            return self._waiting.pop(next(iter(self._waiting)))

    def _see_to(self, source: SourceRow) -> None:
        target = self._config.target.endpoint
        with connect(target, _STAGE) as connection:
            self._connection = connection
            try:
                with translated(target, "cannot begin"):
                    take_lock(connection, _STAGE)
                with self._chore(source, target, "cannot prune the history"):
                    count = prune_history(connection, source, self._config.housekeeping.history)
                    logger.debug("housekeeping: pruned", extra={"rows": count})
                with self._chore(source, target, "cannot analyze"):
                    self._analyze(connection, source)
                self._visit_source(connection, source)
                if self._config.housekeeping.foreign_key_indexes:
                    with self._chore(source, target, "cannot look for missing indexes"):
                        self._make_indexes(connection, source)
            finally:
                self._connection = None

    def _analyze(self, connection: Connection, source: SourceRow) -> None:
        schemas = read_target_schemas(connection, source.source_id).values()
        for schema, table in find_stale(connection, schemas):
            self._go_on()
            analyze(connection, schema, table)
            logger.info("housekeeping: analyzed", extra={"table": shown_name(schema, table)})

    def _visit_source(self, connection: Connection, source: SourceRow) -> None:
        """Bring the sequences over, and keep the log of captured DDL short."""
        config, target = self._config.sources.get(source.name), self._config.target.endpoint
        if config is None or not config.is_database:
            return
        endpoint = config.endpoint
        with self._chore(source, target, "cannot set the sequences"):
            schemas = read_target_schemas(connection, source.source_id)
            with connect(endpoint, _STAGE, patience_s=_SOURCE_PATIENCE_S) as source_session:
                with translated(endpoint, "cannot read the sequences"):
                    values = read_values(source_session, list(schemas))
                with self._chore(source, endpoint, "cannot prune the log of DDL"):
                    prune_log(source_session)
            self._go_on()
            for sequence in set_values(connection, values, schemas):
                logger.debug("housekeeping: sequence moved", extra={"sequence": sequence})

    def _make_indexes(self, connection: Connection, source: SourceRow) -> None:
        target = self._config.target.endpoint
        schemas = read_target_schemas(connection, source.source_id).values()
        for missing in find_missing(connection, schemas):
            name = (missing.schema_name, missing.index_name)
            if name in self._hopeless:
                continue
            self._go_on()
            logger.info("housekeeping: making an index", extra={"on": str(missing)})
            try:
                with translated(target, f"cannot make an index on {missing}"):
                    make_index(connection, missing)
            except PgreplError as exc:
                self._fail(source, exc)
                if exc.retry is not Retry.TIMED:
                    self._hopeless.add(name)

    @contextmanager
    def _chore(self, source: SourceRow, endpoint: Endpoint, action: str) -> Iterator[None]:
        """Do one thing; that it fails keeps nobody from the next."""
        self._go_on()
        try:
            with translated(endpoint, action):
                yield
        except PgreplError as exc:
            self._fail(source, exc)

    def _fail(self, source: SourceRow, error: PgreplError) -> None:
        # What was cancelled because of us did not fail.
        self._go_on()
        logger.warning(
            "housekeeping: %s", error.message, extra={"source": source.name, "hint": error.hint}
        )

    def _go_on(self) -> None:
        if self._is_stopping.is_set():
            raise _Stopped
