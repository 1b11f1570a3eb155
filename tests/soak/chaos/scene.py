"""Two source servers with four databases, a target with a standby, a broker, and all services.

One of the sources is exported to topics, which are a source themselves: its tables are on the
target twice, by both ways.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import psycopg

from pgrepl.throwaway import Broker, Cluster, ServerBinaries
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.soak.chaos.load import TABLES, Load
from tests.soak.chaos.patience import patiently
from tests.soak.chaos.reader import Reader
from tests.soak.chaos.services import Service
from tests.soak.chaos.target_pair import TargetPair
from tests.support.database import Database
from tests.support.machine.proxy import Proxy
from tests.support.observing.invariants import broken_invariants
from tests.support.program import run_pgrepl
from tests.support.running.replaying import checksums
from tests.support.streams.kafka import KAFKA_JARS
from tests.support.waiting import wait_until

T = TypeVar("T", Service, Load, Reader)

#: Name of the source, number of its server, what is in its section.
_SOURCES = (
    ("stream", 0, {"plugin": "wal2json", "backlog": "stream"}),
    ("pull", 0, {"plugin": "pgoutput", "backlog": "pull"}),
    ("other", 1, {"plugin": "pgoutput", "backlog": "stream"}),
    ("topics", 1, {"plugin": "pgoutput", "backlog": "stream"}),
)
#: The source that is exported; the source that its topics are, and its schema.
_EXPORTED = "topics"
_ECHO = "echo"
_ECHO_SCHEMA = f"{_ECHO}_app"
#: A table of changing structure has no topic.
_EXPORTED_TABLES = ("debit", "credit", "scratch", "items", "plain", "bulk")
#: The sources whose receivers have clocks that jump.
_CLOCKS = ("stream", "other")
_DISK_MB = 600
#: How long a target that is not its sources may stay as it is, once all faults are over.
_PATIENCE_S = 300
#: How long something that must always hold may seem not to.
_MOMENT_S = 20


@dataclass
class Source:
    name: str
    database: Database
    proxy: Proxy
    service: Service
    load: Load

    @property
    def schema(self) -> str:
        """Where its tables are on the target."""
        return f"{self.database.name}_app"


class Scene:
    """A context manager; everything runs as long as it is open."""

    def __init__(self, folder: Path, binaries: ServerBinaries, seed: int) -> None:
        self._folder = folder
        #: What the last command said that did not succeed.
        self._said = ""
        self._stack = ExitStack()
        with self._stack:
            self.target = TargetPair(binaries, _DISK_MB)
            self._stack.callback(self.target.close)
            self.source_clusters = [
                self._stack.enter_context(Cluster(binaries=binaries, settings=LOGICAL_DECODING))
                for _ in range(2)
            ]
            self.broker = self._stack.enter_context(Broker(jars=KAFKA_JARS))
            databases = [self._make_database(name, at) for name, at, _ in _SOURCES]
            proxies = [self._stack.enter_context(Proxy(each)) for each in databases]
            self.config = self._write_config(proxies)
            for name, _, _ in _SOURCES:
                self.run("basebackup", name)
                self.run("ddl", "install", name)
            self.sources = [
                Source(
                    name,
                    database,
                    proxy,
                    self._keep(
                        Service(folder, self.config, "receive", name, has_clock=name in _CLOCKS)
                    ),
                    self._keep(
                        Load(database.dsn, f"{seed}/{name}", writers=1, has_ddl=name != _EXPORTED)
                    ),
                )
                for (name, _, _), database, proxy in zip(_SOURCES, databases, proxies, strict=True)
            ]
            self.replay = self._keep(Service(folder, self.config, "replay"))
            exported = [f"app.{table}" for table in _EXPORTED_TABLES]
            to = f"kafka://{self.broker.bootstrap}/{_ECHO}"
            options = ("--snapshot", "--schemas", "--partitions", "1")
            self.export = self._keep(
                Service(folder, self.config, "export", _EXPORTED, *exported, "--to", to, *options)
            )
            self.echo = self._keep(Service(folder, self.config, "receive", _ECHO))
            # Last to come, first to go: it sees nothing that is half made.
            self.reader = self._keep(
                Reader(self.target.dsn, [*(s.schema for s in self.sources), _ECHO_SCHEMA])
            )
            self.reader.unready.add(_ECHO_SCHEMA)
            (twice,) = (source for source in self.sources if source.name == _EXPORTED)
            with twice.load.paused():
                # The rows of a snapshot are no transaction.
                wait_until(self._has_echo, timeout_s=900)
            self.reader.unready.discard(_ECHO_SCHEMA)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> int:
        """Run a command to its end, and insist on how it ends."""
        done = run_pgrepl(*arguments, "--config", self.config)
        if done.returncode:
            self._said = f"{' '.join(arguments)}: {done.returncode}: {done.stderr[-3000:]}"
        assert done.returncode in codes, (arguments, done.returncode, done.stderr[-3000:])
        return done.returncode

    @property
    def wrong(self) -> list[str]:
        """What was seen that must not be."""
        return [
            *self.reader.wrong,
            *(line for source in self.sources for line in source.load.wrong),
            *(line for service in self.services for line in service.wrong),
        ]

    @property
    def copied_sources(self) -> list[Source]:
        """Those whose tables are copied, and may be again: nobody reads topics of them."""
        return [source for source in self.sources if source.name != _EXPORTED]

    @property
    def receivers(self) -> list[Service]:
        return [*(source.service for source in self.sources), self.echo]

    @property
    def services(self) -> list[Service]:
        return [self.replay, self.export, *self.receivers]

    def _has_echo(self) -> bool:
        """Whether the rows that there were before the export have arrived; nobody writes yet."""
        (exported,) = (source for source in self.sources if source.name == _EXPORTED)
        here = checksums(exported.database, "app")
        here = {name: here[name] for name in _EXPORTED_TABLES}
        return not self._compare_tables(_ECHO, here, _ECHO_SCHEMA)

    def heal(self) -> None:
        """Take away what faults may have left."""
        for proxy in (self.target.proxy, *(source.proxy for source in self.sources)):
            proxy.delay_s = 0.0
            proxy.thaw()

    @contextmanager
    def explained(self, say: Callable[[str], None]) -> Iterator[None]:
        """Should the block fail, say what those know who may know why."""
        try:
            yield
        except BaseException:
            self.heal()
            status = run_pgrepl("status", "--config", self.config)
            say(f"{status.stdout}{status.stderr}chaos: the last command that failed: {self._said}")
            for number, cluster in enumerate([self.target.cluster, *self.source_clusters]):
                shutil.copy(cluster.log, self._folder / f"server-{number}.log")
            say(f"chaos: logs are in {self._folder}")
            raise

    def differences(self, *, has_verify: bool = False) -> list[str]:
        """Let the target catch up while nobody writes; return what is different then.

        ``has_verify``: let the program say the same.
        """
        with ExitStack() as stack:
            for source in self.sources:
                stack.enter_context(source.load.paused())
            before: list[str] = []
            since = time.monotonic()
            while (found := self._compare()) and time.monotonic() - since < _PATIENCE_S:
                if found != before:
                    before, since = found, time.monotonic()
                time.sleep(1)
            if has_verify:
                for source in self.sources:
                    self.run("verify", source.name, "--wait", str(_PATIENCE_S))
            # A receiver that moves on at this moment is seen before and after.
            since = time.monotonic()
            while (broken := patiently(lambda: broken_invariants(self.target.database))) and (
                time.monotonic() - since < _MOMENT_S
            ):
                time.sleep(1)
            return [*found, *broken]

    def _compare(self) -> list[str]:
        found = []
        for source in self.sources:
            here = patiently(partial(checksums, source.database, "app"))
            found += self._compare_tables(source.name, here, source.schema)
            if source.name == _EXPORTED:
                exported = {name: here[name] for name in _EXPORTED_TABLES}
                found += self._compare_tables(_ECHO, exported, _ECHO_SCHEMA)
        return found

    def _compare_tables(
        self, name: str, here: Mapping[str, tuple[int, str]], schema: str
    ) -> list[str]:
        try:
            there = patiently(lambda: checksums(self.target.database, schema))
        except psycopg.errors.UndefinedTable:
            return [f"{name}: a table was dropped meanwhile"]
        return [
            f"{name}: {table}: {here.get(table)} on the source, {there.get(table)}"
            for table in sorted(here.keys() | there.keys())
            if here.get(table) != there.get(table)
        ]

    @contextmanager
    def copied_again(self, source: Source) -> Iterator[None]:
        """Let a source's copy be made from the start; its reader looks away."""
        self.reader.unready.add(source.schema)
        with source.service.stopped():
            yield
        self.reader.unready.discard(source.schema)

    def _keep(self, thing: T) -> T:
        self._stack.callback(thing.close)
        return thing

    def _make_database(self, name: str, at: int) -> Database:
        cluster = self.source_clusters[at]
        cluster.create_database(name)
        database = Database(cluster, name)
        database.execute(TABLES)
        return database

    def _write_config(self, proxies: list[Proxy]) -> Path:
        lines = [
            "[target]",
            f"dsn = {json.dumps(self.target.proxy.dsn)}",
            '[spark]\nmaster = "local[2]"',
            '[replay]\nconsistency = "batch"\nshards = 3',
        ]
        for (name, _, options), proxy in zip(_SOURCES, proxies, strict=True):
            lines += [f"[sources.{name}]", f"dsn = {json.dumps(proxy.dsn)}"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        lines += [
            f"[sources.{_ECHO}]",
            'kind = "kafka"\nenvelope = "debezium"',
            f"bootstrap = {json.dumps(self.broker.bootstrap)}",
            f"topics = {json.dumps([f'{_ECHO}.app.{table}' for table in _EXPORTED_TABLES])}",
            f'transaction_topic = "{_ECHO}.transaction"',
        ]
        path = self._folder / "pgrepl.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path
