"""The whole way of a change in the test's own process: copy, receive, replay, compare."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pgrepl.config.model import Config, DdlConfig, OnError, Plugin, SpecialFloats
from pgrepl.config.naming import TableSelection
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture import Applier
from pgrepl.errors import AlreadyRunning, DdlStopped
from pgrepl.postgres.connect import Connection
from pgrepl.receiver import Receiver, ReceiverSettings
from pgrepl.replayer import Replayer, ReplaySettings, SourceResult
from pgrepl.resync import Resyncer
from tests.support.database import Database
from tests.support.observing.invariants import broken_invariants
from tests.support.running.copying import copy_source_of, make_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until

#: Each transaction is a segment of its own, each change a row of it.
IN_PIECES = ReceiverSettings(segment_bytes=1)

#: Tests do not wait for backoffs, and their few changes go the way that many go.
QUICK = ReplaySettings(
    backoff_s=0.01,
    backoff_limit_s=0.05,
    lock_timeout_s=0.3,
    driver_changes=0,
    one_task_changes=0,
)
#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)


class NoDdl(Applier):
    """Stands where captured DDL would be applied: none is expected."""

    def __init__(self) -> None:
        """Need no configuration."""

    def apply(self, _connection: Connection, captured: CapturedDdl) -> None:
        raise DdlStopped(f"captured DDL at {captured.commit_lsn}")

    def record_stop(
        self, _connection: Connection, _captured: CapturedDdl, _stopped: DdlStopped
    ) -> None:
        raise AssertionError("no test lets DDL stop")


@dataclass
class Pipeline:
    """One source and its target; ``options`` are those of section ``[replay]``."""

    source: Database
    target: Database
    options: dict[str, Any] = field(default_factory=dict)
    #: Applies captured DDL, where some is expected.
    ddl: Applier | None = None
    special_floats: SpecialFloats = "mark"
    ddl_on_error: OnError = "park"
    #: Copies tables again that DDL left different, where a test wants that.
    resync: Resyncer | None = None
    plugin: Plugin = "wal2json"
    tables: Sequence[str] = ("*.*",)

    @property
    def config(self) -> Config:
        config = make_config(self.target, self.source, plugin=self.plugin)
        sources = {
            name: replace(
                source,
                special_floats=self.special_floats,
                selection=TableSelection.of(self.tables),
            )
            for name, source in config.sources.items()
        }
        return replace(
            config,
            sources=sources,
            replay=replace(config.replay, **self.options),
            ddl=DdlConfig(on_error=self.ddl_on_error),
        )

    def copy(self) -> None:
        copy_source_of(self.config, self.source.name)

    def receive(self, settings: ReceiverSettings | None = None) -> None:
        config = self.config
        Receiver(config, config.sources[self.source.name], settings=settings).run(once=True)

    def replay(self, settings: ReplaySettings = QUICK, **options: Any) -> SourceResult:
        """Replay what is spooled, and return what came of it."""
        config = self.config
        config = replace(config, replay=replace(config.replay, **options))
        results: list[SourceResult] = []

        def run() -> bool:
            replayer = Replayer(config, self.ddl or NoDdl(), settings, resync=self.resync)
            # The server may not have seen yet that a process which was killed has ended.
            with suppress(AlreadyRunning):
                results.extend(replayer.run(once=True))
            return bool(results)

        wait_until(run)
        (result,) = results
        return result

    def apply(self, settings: ReplaySettings = QUICK, **options: Any) -> None:
        """Receive and replay all there is, and insist that nothing went wrong."""
        self.receive()
        result = self.replay(settings, **options)
        assert result.error is None
        assert result.parked == [], self.parked()

    def schema(self, schema: str = "public") -> str:
        """Return the name of a schema on the target."""
        return f"{self.source.name}_{schema}"

    def differences(self, schema: str = "public") -> list[str]:
        """Return the tables whose rows differ; what must always hold does."""
        assert broken_invariants(self.target) == []
        here, there = checksums(self.target, self.schema(schema)), checksums(self.source, schema)
        assert here.keys() == there.keys()
        return [name for name in there if here[name] != there[name]]

    def parked(self) -> Sequence[tuple[str, str]]:
        """Return the parked tables and why they are."""
        return [
            (table, reason)
            for table, reason in self.target.rows(
                "select table_name::text, reason from replication.parked_table order by 1"
            )
        ]

    def spool_count(self) -> int:
        return int(self.target.value("select count(*) from replication.raw_messages"))


def clone(database: Database, name: str) -> Database:
    """Copy a database that nobody is connected to."""
    copy = Database(database.cluster, name)
    copy.create(template=database.name)
    return copy
