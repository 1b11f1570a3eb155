"""The servers of a benchmark: a source, a target, and one with native subscriptions.

Each round loads a backlog on the source once; then everyone catches up with it in turn, while
nothing else runs: the native subscription, and pgrepl with each output plugin, which has a slot and
a database of its own for each.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Self

from bench.measuring.cpu import all_below, cpu_of, cpu_seconds, find_below
from bench.measuring.workloads import Workload
from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.config.model import BacklogMode, Config, Plugin, ReplayConfig
from pgrepl.receiver import Notifier, Receiver
from pgrepl.replayer import Replayer
from pgrepl.throwaway import Cluster, ServerBinaries
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.machine.memory import peak_mib
from tests.support.running.copying import Recorder, make_config
from tests.support.running.pipeline import NoDdl

__all__ = ["NATIVE", "Rig", "Timing", "wait_for"]

NATIVE = "native"
MARKER = "bench_marker"
_KINDS = "source", "target", NATIVE


@dataclass(frozen=True)
class Timing:
    wall_s: float
    #: CPU seconds by who used them.
    cpu_s: dict[str, float]


@dataclass(frozen=True)
class Received:
    seconds: float
    #: What it has in the spool.
    byte_count: int
    #: The most memory that the receiver held beyond the program itself.
    mib: int


@dataclass
class Rig:
    binaries: ServerBinaries
    folder: Path
    replay: ReplayConfig
    plugins: list[Plugin]
    #: None: as it is by default.
    backlog: BacklogMode | None = None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)
    _receiver: int | None = None

    def __enter__(self) -> Self:
        for kind in _KINDS:
            # A native worker that has just ended is started again after this, not after 5 seconds.
            settings = {**LOGICAL_DECODING, "wal_retrieve_retry_interval": "100ms"}
            cluster = Cluster(settings=settings, binaries=self.binaries)
            self.clusters[kind] = self.stack.enter_context(cluster)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    # What there is.

    def prepare(self, name: str, make: Callable[[Database], None], *, native: bool = True) -> None:
        """Make a source with its copies: a database of this name on every server."""
        source = self.source(name)
        source.cluster.create_database(name)
        make(source)
        source.execute(
            f"create table {MARKER} (id bigint generated always as identity primary key)"
        )
        if native:
            self._subscribe(name)
        for plugin in self.plugins:
            target = self.target(name, plugin)
            target.cluster.create_database(target.name)
            config = self.config(name, plugin)
            copy_source(config, config.sources[name], CopyOptions(), Recorder())

    def source(self, name: str) -> Database:
        return Database(self.clusters["source"], name)

    def target(self, name: str, plugin: Plugin) -> Database:
        return Database(self.clusters["target"], f"{name}_{plugin}")

    def config(self, name: str, plugin: Plugin) -> Config:
        config = make_config(self.target(name, plugin), self.source(name), plugin=plugin)
        own = replace(config.sources[name], slot=f"{name}_{plugin}")
        if self.backlog is not None:
            own = replace(own, backlog=self.backlog)
        return replace(config, sources={name: own}, replay=self.replay)

    def make(self, workload: Workload) -> Callable[[Database], None]:
        """Return what fills a source for a workload."""

        def fill(source: Database) -> None:
            if workload.script is None:
                self.pgbench(source, "-q", "-i", "-s", "10")
            else:
                source.execute(*workload.make.split(";"))

        return fill

    def _subscribe(self, name: str) -> None:
        source, native = self.source(name), Database(self.clusters[NATIVE], name)
        native.cluster.create_database(name)
        dump = subprocess.run(
            [self.program("pg_dump"), "-s", source.dsn()], check=True, capture_output=True
        ).stdout
        subprocess.run(
            [self.program("psql"), "-qX", native.dsn()],
            input=dump,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        source.execute("create publication bench for all tables")
        native.execute(
            f"create subscription bench connection '{source.dsn()}' publication bench"
            f" with (slot_name = 'native_{name}')"
        )
        wait_for(
            lambda: native.value(
                "select count(*) > 0 and bool_and(srsubstate = 'r') from pg_subscription_rel"
            )
        )
        self.switch(name, is_on=False)

    # Load.

    def load(self, name: str, workload: Workload, count: int) -> str:
        """Run transactions on the source; return where the backlog ends."""
        script = []
        if workload.script is not None:
            path = self.folder / f"{workload.name}.sql"
            path.write_text(workload.script, encoding="utf-8")
            path.chmod(0o644)
            script = ["-f", str(path)]
        source = self.source(name)
        how = ["-n", "-c", "4", "-j", "2", "-M", workload.protocol, "-t", str(count // 4)]
        self.pgbench(source, *how, *script)
        return self.mark(name)

    def mark(self, name: str) -> str:
        """Commit a last transaction, and return the position before it."""
        source = self.source(name)
        # A source notes every 15 seconds what runs, and decoding begins at such a note. As this one
        # is loaded much faster than others are, that would be several rounds before.
        source.execute(
            "select pg_create_logical_replication_slot('note', 'pgoutput', true)",
            "select pg_drop_replication_slot('note')",
        )
        before = str(source.value("select pg_current_wal_insert_lsn()::text"))
        source.execute(f"insert into {MARKER} default values")
        return before

    def pgbench(self, source: Database, *arguments: str) -> None:
        subprocess.run(
            [self.program("pgbench"), *arguments, source.dsn()], check=True, capture_output=True
        )

    def program(self, name: str) -> Path:
        program = self.binaries.program(name)
        return program if program.exists() else Path(name)

    # Catching up.

    def native(self, name: str) -> Timing:
        """Let the native subscription catch up."""
        wanted = self.source(name).value(f"select max(id) from {MARKER}")
        begin, began = self._cpu(), time.monotonic()
        self.switch(name, is_on=True)
        with Database(self.clusters[NATIVE], name).connect() as connection:
            query = f"select exists (select from {MARKER} where id = {wanted})".encode()
            wait_for(lambda: connection.execute(query).fetchone() == (True,))
        timing = Timing(time.monotonic() - began, self._used(begin))
        self.switch(name, is_on=False)
        return timing

    def switch(self, name: str, *, is_on: bool) -> None:
        native, source = Database(self.clusters[NATIVE], name), self.source(name)
        native.execute(f"alter subscription bench {'enable' if is_on else 'disable'}")
        if not is_on:
            slot = f"select active from pg_replication_slots where slot_name = 'native_{name}'"
            wait_for(lambda: not source.value(slot))

    def together(self, name: str, plugin: Plugin, end: str) -> Timing:
        """Let receive and replay catch up, both warm, started at once."""
        config = self.config(name, plugin)
        ready, go = multiprocessing.Event(), multiprocessing.Event()
        process = multiprocessing.Process(target=_receive_when, args=(config, ready, go))
        process.start()
        ready.wait()
        self._receiver = process.pid
        try:
            return self._replay(config, end, go)
        finally:
            self._receiver = None
            process.terminate()
            process.join()

    def alone(self, name: str, plugin: Plugin, end: str, shards: int | None = None) -> Timing:
        """Let replay work off what is in the spool."""
        config = self.config(name, plugin)
        if shards is not None:
            config = replace(config, replay=replace(config.replay, shards=shards))
        return self._replay(config, end, multiprocessing.Event())

    def receive(self, name: str, plugin: Plugin) -> Received:
        """Receive all there is, in a process of its own."""
        ours, theirs = multiprocessing.Pipe(duplex=False)
        arguments = self.config(name, plugin), theirs
        process = multiprocessing.Process(target=_receive_all, args=arguments)
        process.start()
        theirs.close()
        taken_s, taken_mib = ours.recv()
        process.join()
        size = self.target(name, plugin).value(
            "select coalesce(sum(octet_length(payload)), 0) from replication.raw_messages"
        )
        return Received(taken_s, int(size), taken_mib)

    def worker_mib(self) -> int:
        """Return the most memory that one of Spark's workers ever held."""
        jvm = find_below(os.getpid(), "java")
        workers = all_below(find_below(jvm, "python")) if jvm else ()
        return max(map(_peak_mib, workers), default=0)

    def _replay(self, config: Config, end: str, go: Event) -> Timing:
        replayer = Replayer(config, NoDdl())

        def run() -> None:
            go.wait()
            replayer.run()

        thread = threading.Thread(target=run)
        thread.start()
        (name,) = config.sources
        (plugin,) = {source.plugin for source in config.sources.values()}
        try:
            begin, began = self._cpu(), time.monotonic()
            go.set()
            # Not the marker alone: every shard has to be there.
            with self.target(name, plugin).connect() as connection:
                query = f"select exists (select from replication.binding where lsn > '{end}')"
                wait_for(lambda: connection.execute(query.encode()).fetchone() == (True,))
            return Timing(time.monotonic() - began, self._used(begin))
        finally:
            replayer.stop()
            thread.join()

    # CPU.

    def _cpu(self) -> dict[str, float]:
        used = {kind: cpu_seconds(cluster) for kind, cluster in self.clusters.items()}
        jvm = find_below(os.getpid(), "java")
        workers = find_below(jvm, "python") if jvm else 0
        jvm_s = cpu_of(jvm) if jvm else 0.0
        workers_s = cpu_of(workers) if workers else 0.0
        receiver = cpu_of(self._receiver) if self._receiver is not None else 0.0
        return {
            **used,
            "receiver": receiver,
            "workers": workers_s,
            "JVM": jvm_s - workers_s,
            "driver": time.process_time(),
        }

    def _used(self, begin: dict[str, float]) -> dict[str, float]:
        now = self._cpu()
        return {who: round(now[who] - before, 2) for who, before in begin.items()}


def _peak_mib(pid: int) -> int:
    """Return the most memory that a process held; 0: it has ended."""
    try:
        return peak_mib(pid)
    except (OSError, ValueError):
        return 0


def _receive_when(config: Config, ready: Event, go: Event) -> None:
    (source,) = config.sources.values()
    receiver = Receiver(config, source, notifier=Notifier({}))
    # As the command does: one that is killed has not confirmed what it received, and the source
    # would decode that again, also for the rounds to come.
    signal.signal(signal.SIGTERM, lambda *_: receiver.stop())
    # What there is of a fork is not the receiver's to look through.
    gc.freeze()
    ready.set()
    go.wait()
    receiver.run(once=False, until=None)


def _receive_all(config: Config, into: Connection) -> None:
    (source,) = config.sources.values()
    # What there is of a fork is not the receiver's.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before_mib = peak_mib(os.getpid())
    began = time.monotonic()
    Receiver(config, source, notifier=Notifier({})).run(once=True, until=None)
    into.send((time.monotonic() - began, peak_mib(os.getpid()) - before_mib))


def wait_for(is_there: Callable[[], object], limit_s: float = 900) -> None:
    """Wait until something is so."""
    end = time.monotonic() + limit_s
    while not is_there():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)
