"""A source, its copy and a replayer without Spark: for tests of tables that are copied live."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgrepl import failpoint
from pgrepl.catalog.tables import read_tables
from pgrepl.config.file import load_config
from pgrepl.config.model import Config
from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Rules
from pgrepl.ddl_capture import Applier
from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.receiver import Receiver
from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.batch_commit import merge_batch, staging_prefix
from pgrepl.replayer.serial.transaction import SerialTransaction
from pgrepl.replayer.session import lend_session, open_session
from pgrepl.replayer.shard.task import run_shard
from pgrepl.replayer.source_queue import SourceWork, Work, shard_tasks
from pgrepl.resync.chunked import ChunkedResync, run_chunked
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.sides import Sides
from pgrepl.store.progress.shard_progress import begin_progress, finish, follow_idle
from pgrepl.store.resync.running_resyncs import ResyncRow, request_resync
from pgrepl.store.sources import SourceRow, find_source
from tests.support.database import Database
from tests.support.running.streaming import Streaming

SETTINGS = ReplaySettings()


@dataclass
class Live:
    """Tables of schema ``app``, whose copies are in ``app_copy``."""

    source: Database
    target: Database
    folder: Path
    plugin: str = "wal2json"
    consistency: str = "shard"
    ddl: Applier | None = None
    #: TOML for the section of the source.
    settings: Mapping[str, Any] = field(default_factory=dict)
    _streaming: Streaming = field(init=False)
    #: One thread at a time receives, and one replays: a second one would be refused, as it should.
    _receiving: threading.Lock = field(init=False, default_factory=threading.Lock)
    _replaying: threading.Lock = field(init=False, default_factory=threading.Lock)

    def begin(self, *tables: str) -> Live:
        """Make the tables on both sides, empty, and stream from there on."""
        for side, schema in ((self.source, "app"), (self.target, "app_copy")):
            side.execute(f"create schema {schema}")
            for table in tables:
                side.execute(f"set search_path = {schema}; {table}")
        self._streaming = Streaming(
            self.source,
            self.target,
            self.folder,
            {"schema": "{schema}_copy", "plugin": self.plugin, **self.settings},
        )
        self._streaming.begin()
        self.target.execute(
            "insert into replication.target_schema (source_id, source_schema, target_schema)"
            f" values ({self._streaming.source_id}, 'app', 'app_copy')"
        )
        with connect(self.config.target.endpoint, "test") as connection:
            begin_progress(connection, self._streaming.source_id, 2)
        return self

    @property
    def config_path(self) -> Path:
        return self._streaming.config

    @property
    def config(self) -> Config:
        return load_config(self.config_path)

    @property
    def row(self) -> SourceRow:
        with connect(self.config.target.endpoint, "test") as connection:
            return self._row(connection)

    def _row(self, connection: Connection) -> SourceRow:
        row = find_source(connection, self._streaming.name)
        assert row is not None
        return row

    def receive(self) -> None:
        config = self.config
        with self._receiving:
            Receiver(config, config.sources[self._streaming.name]).run(once=True)

    def replay(self) -> None:
        """Apply all that is spooled."""
        config = self.config
        with self._replaying, connect(config.target.endpoint, "test") as control:
            work = SourceWork(self._row(control))
            while (planned := work.plan(control, config.replay, SETTINGS)) is not None:
                self._apply(planned)
            follow_idle(control, work.source.source_id)

    def _apply(self, work: Work) -> None:
        config, target = self.config, self.config.target.endpoint
        if work.batch.kind == "serial":
            with lend_session(target, SETTINGS, "serial") as connection:
                SerialTransaction(
                    connection,
                    work.source,
                    work.batch,
                    on_error="stop",
                    on_conflict="error",
                    ddl_on_error="stop",
                    ddl=self.ddl or Applier(config),
                    settings=SETTINGS,
                ).run()
            return
        is_whole = self.consistency == "batch"
        prefix = (lambda i: f"{staging_prefix(i)}x") if is_whole else None
        results = []
        for task in shard_tasks(work, target, config.replay, SETTINGS, prefix):
            result = run_shard(task)
            if isinstance(result, PgreplError):
                raise result
            assert result.parked == [], result.parked
            results.append(result)
        source_id, batch = work.source.source_id, work.batch
        with closing(open_session(target, SETTINGS)) as connection:
            if is_whole:
                merge_batch(
                    connection,
                    work.source,
                    batch,
                    results,
                    on_error="stop",
                    on_conflict="error",
                    settings=SETTINGS,
                )
            else:
                finish(connection, source_id, batch.to_seq, batch.last_lsn)

    @contextmanager
    def streaming(self) -> Iterator[list[BaseException]]:
        """Receive and replay, over and over, until the block ends; then once more."""
        stop = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                # What asks for nothing else would take both processors from what is tested.
                while not stop.wait(0.05):
                    self.follow()
            except BaseException as exc:  # noqa: BLE001  the test raises it
                failed.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield failed
        finally:
            stop.set()
            thread.join()
            if failed:
                raise failed[0]
        self.follow()

    def follow(self) -> None:
        self.receive()
        self.replay()

    def request(self, table: str, **options: Any) -> ResyncRow:
        with (
            connect(self.config.target.endpoint, "test") as target,
            connect(self.config.sources["shop"].endpoint, "test") as origin,
        ):
            found = next(t for t in read_tables(origin, Rules()) if t.key == ("app", table))
            return request_resync(
                target,
                self._streaming.source_id,
                found.key,
                oid=found.oid,
                way="chunked",
                **{"max_rate": None, "is_first": False, **options},
            )

    def resync(self, table: str, **options: Any) -> None:
        """Copy a table in chunks; replay has to run meanwhile."""
        resync = self.request(table, **options.pop("request", {}))
        config = self.config
        with (
            connect(config.target.endpoint, "test") as target,
            connect(config.sources["shop"].endpoint, "test") as origin,
        ):
            found = next(t for t in read_tables(origin, Rules()) if t.key == ("app", table))
            run_chunked(
                ChunkedResync(
                    sides=Sides(
                        config=config,
                        source=config.sources["shop"],
                        options=ResyncOptions(
                            tables=TableSelection.of([f"app.{table}"]),
                            **{"pause": threading.Event().wait, "wait_s": 60, **options},
                        ),
                        row=self.row,
                        target=target,
                        source_session=origin,
                    ),
                    table=found,
                    resync=resync,
                )
            )

    def differences(self, table: str) -> set[str]:
        """Return rows that one side has and the other has not."""
        here, there = (
            {text[:120] for (text,) in database.rows(f"select t::text from {schema}.{table} t")}
            for database, schema in ((self.source, "app"), (self.target, "app_copy"))
        )
        return here ^ there

    def follow_until_killed(self, place: str) -> bool:
        """Receive and replay in a process that dies at a failpoint; whether it got there."""
        child = _fork(self.follow, place)
        _, status = os.waitpid(child, 0)
        return _was_killed(status)

    def resync_until_killed(
        self,
        table: str,
        place: str,
        beside: Callable[[], AbstractContextManager[None]] = nullcontext,
        **options: Any,
    ) -> bool:
        """Copy a table in chunks in a process that dies at a failpoint; whether it got there."""
        child = _fork(lambda: self.resync(table, **options), place)
        with beside():
            while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
                # It waits for replay in the end.
                self.follow()
        return _was_killed(done[1])


def _fork(act: Callable[[], object], place: str) -> int:
    """Act in a process that dies at a failpoint, and return its number."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            failpoint._armed, failpoint._survived = failpoint._parse(place)
            act()
            os._exit(0)
        os._exit(1)
    return child


def _was_killed(status: int) -> bool:
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code != 0
