"""Two source servers with three databases, a target with a standby, and all services."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from pgrepl.throwaway import Cluster, ServerBinaries
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.soak.chaos.load import TABLES, Load
from tests.soak.chaos.reader import Reader
from tests.soak.chaos.services import Service
from tests.soak.chaos.target_pair import TargetPair
from tests.support.database import Database
from tests.support.machine.proxy import Proxy
from tests.support.program import run_pgrepl
from tests.support.running.replaying import checksums

T = TypeVar("T", Service, Load, Reader)

#: Name of the source, number of its server, what is in its section.
_SOURCES = (
    ("stream", 0, {"plugin": "wal2json", "backlog": "stream"}),
    ("pull", 0, {"plugin": "pgoutput", "backlog": "pull"}),
    ("other", 1, {"plugin": "pgoutput", "backlog": "stream"}),
)
_DISK_MB = 600
#: How long a target that is not its sources may stay as it is, once all faults are over.
_PATIENCE_S = 120


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
        self._stack = ExitStack()
        with self._stack:
            self.target = TargetPair(binaries, _DISK_MB)
            self._stack.callback(self.target.close)
            self.source_clusters = [
                self._stack.enter_context(Cluster(binaries=binaries, settings=LOGICAL_DECODING))
                for _ in range(2)
            ]
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
                    self._keep(Service(folder, self.config, "receive", name)),
                    self._keep(Load(database.dsn, f"{seed}/{name}")),
                )
                for (name, _, _), database, proxy in zip(_SOURCES, databases, proxies, strict=True)
            ]
            self.replay = self._keep(Service(folder, self.config, "replay"))
            # Last to come, first to go: it sees nothing that is half made.
            self.reader = self._keep(Reader(self.target.dsn, [s.schema for s in self.sources]))
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> int:
        """Run a command to its end, and insist on how it ends."""
        done = run_pgrepl(*arguments, "--config", self.config)
        assert done.returncode in codes, (arguments, done.returncode, done.stderr[-3000:])
        return done.returncode

    def heal(self) -> None:
        """Take away what faults may have left."""
        for proxy in (self.target.proxy, *(source.proxy for source in self.sources)):
            proxy.delay_s = 0.0
            proxy.thaw()

    def differences(self) -> list[str]:
        """Let the target catch up while nobody writes; return what is different then."""
        with ExitStack() as stack:
            for source in self.sources:
                stack.enter_context(source.load.paused())
            before: list[str] = []
            since = time.monotonic()
            while (found := self._compare()) and time.monotonic() - since < _PATIENCE_S:
                if found != before:
                    before, since = found, time.monotonic()
                time.sleep(0.5)
            return found

    def _compare(self) -> list[str]:
        found = []
        for source in self.sources:
            here = checksums(source.database, "app")
            there = checksums(self.target.database, source.schema)
            found += [
                f"{source.name}: {name}: {here.get(name)} on the source, {there.get(name)}"
                for name in sorted(here.keys() | there.keys())
                if here.get(name) != there.get(name)
            ]
        return found

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
        path = self._folder / "pgrepl.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path
