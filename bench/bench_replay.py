"""Catch up with a backlog beside a native subscription: same load, same machine, same run.

For each workload, twice:

- together: the backlog waits in the source's WAL; receive and replay, both warm, start at once, and
  the time counts until the last transaction is in the target;
- alone: the backlog waits in the spool; only replay runs.

A native subscription catches up with the same backlog before that, on a server of its own, while
nothing else runs. So does pg_recvlogical into nothing: nobody can be faster than wal2json
alone. CPU seconds are those of each server's processes, and of our own.

    PYTHONPATH=. python bench/bench_replay.py [--workloads tpcb,insert] [--scale 1.0] [--shards 4]
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event as EventType
from pathlib import Path

import pytest

from bench.bench_receive import OPTIONS
from pgrepl.config.model import Config, ReplayConfig, SparkConfig
from pgrepl.ddl_capture import Applier
from pgrepl.receiver import Notifier, Receiver
from pgrepl.replayer import Replayer
from pgrepl.replayer.spark_job import DAEMON, ShardJobs
from pgrepl.spark.background import SessionInBackground
from pgrepl.spark.session import build_session
from pgrepl.throwaway import Cluster, ServerBinaries, find_binaries
from tests.support.copying import copy, make_config
from tests.support.database import Database

MARKER = "bench_marker"


@dataclass(frozen=True)
class Workload:
    name: str
    make: str
    #: pgbench's script; None: its own TPC-B.
    script: str | None
    transactions: int
    #: What replay has to reach against native: together, and alone.
    goals: tuple[float, float] | None = None


COLUMNS = [f"c{n}" for n in range(40)]
WORKLOADS = [
    Workload("tpcb", "", None, 100_000, (1.2, 2.5)),
    Workload(
        "insert",
        "create table log (id bigint generated always as identity primary key,"
        " at timestamptz default now(), customer int, note text)",
        "\\set c random(1, 100000)\n"
        "insert into log (customer, note) select :c, 'note ' || g from generate_series(1, 4) g;\n",
        100_000,
        (1.2, 2.5),
    ),
    Workload(
        "hot",
        "create table counter (id int primary key, n bigint not null, note text);"
        "insert into counter select g, 0, 'a counter' from generate_series(1, 100) g",
        "\\set c random(1, 96)\nupdate counter set n = n + 1 where id between :c and :c + 3;\n",
        100_000,
        (1.5, 5.0),
    ),
    Workload(
        "wide",
        f"create table wide (id int primary key, {', '.join(f'{c} text' for c in COLUMNS)});"
        f"insert into wide select g, {', '.join(f'$${c} $$||g' for c in COLUMNS)}"
        " from generate_series(1, 20000) g",
        "\\set c random(1, 20000)\nupdate wide set c1 = 'x' || :c, c7 = now() where id = :c;\n",
        50_000,
    ),
    Workload(
        "many",
        ";".join(
            f"create table t_{n} (id int primary key, n int);"
            f"insert into t_{n} select g, 0 from generate_series(1, 100) g"
            for n in range(200)
        ),
        "\\set a random(0, 199)\n\\set b random(0, 199)\n\\set c random(1, 100)\n"
        "begin;\nupdate t_:a set n = n + 1 where id = :c;\n"
        "update t_:b set n = n + 1 where id = :c;\nend;\n",
        50_000,
    ),
]


@dataclass(frozen=True)
class Timing:
    wall_s: float
    #: CPU seconds by who used them.
    cpu_s: dict[str, float]

    def __str__(self) -> str:
        used = ", ".join(f"{who} {seconds:.1f}" for who, seconds in self.cpu_s.items())
        return f"{self.wall_s:6.2f} s   CPU: {used}"


class Bench:
    def __init__(self, binaries: ServerBinaries, folder: Path, replay: ReplayConfig) -> None:
        self.binaries = binaries
        self.folder = folder
        self.replay = replay
        self.clusters: dict[str, Cluster] = {}
        self.stack = ExitStack()
        self._receiver: int | None = None

    def run(self, workload: Workload, scale: float) -> None:
        count = int(workload.transactions * scale)
        source = self._database("source", workload)
        target = self._database("target", workload)
        native = self._database("native", workload)
        self._fill(source, workload)
        self._subscribe(source, native)
        copy(target, source)
        config = replace(make_config(target, source), replay=self.replay)
        self._warm_up(source, native, config, target)
        databases = source, native, target
        print(f"\n{workload.name}: {count} transactions, {self.replay.shards} shards")
        together = self._compare(
            "together", databases, workload, count, lambda: self._together(config)
        )
        alone = self._compare("alone", databases, workload, count, lambda: self._alone(config))
        goals = workload.goals
        for name, ratio, goal in (
            ("together", together, goals and goals[0]),
            ("alone", alone, goals and goals[1]),
        ):
            print(f"  {name}: {ratio:.2f} times native{f' (goal {goal})' if goal else ''}")

    def _compare(
        self,
        kind: str,
        databases: tuple[Database, Database, Database],
        workload: Workload,
        count: int,
        ours: Callable[[], AbstractContextManager[None]],
    ) -> float:
        source, native, target = databases
        native.execute("alter subscription bench disable")
        wait_for(lambda: not source.value("select bool_or(active) from pg_replication_slots"))
        self._load(source, workload, count)
        before = source.value("select pg_current_wal_insert_lsn()::text")
        marker = source.value(f"insert into {MARKER} default values returning id")
        if kind == "alone":
            self._receive(make_config(target, source), source)
        begin = self._cpu()
        began = time.monotonic()
        native.execute("alter subscription bench enable")
        seen(native, "public", marker)
        theirs = Timing(time.monotonic() - began, self._used(begin))
        native.execute("alter subscription bench disable")
        wait_for(lambda: not source.value("select bool_or(active) from pg_replication_slots"))
        if kind == "together":
            floor_s = self._drain(source, before)
            print(f"  {kind:9} wal2json {floor_s:6.2f} s   into nothing, by pg_recvlogical")
        with ours():
            begin = self._cpu()
            began = time.monotonic()
            self._go.set()
            # Not the marker alone: every shard has to be there.
            published(target, before)
            timing = Timing(time.monotonic() - began, self._used(begin))
        print(f"  {kind:9} native {theirs}\n  {kind:9} pgrepl {timing}")
        return theirs.wall_s / timing.wall_s

    def _drain(self, source: Database, end: str) -> float:
        """Return how long the source alone takes to send the backlog: nobody can be faster."""
        with source.connect() as connection:
            connection.execute(
                "select pg_copy_logical_replication_slot(%s, 'floor')", (f"pgrepl_{source.name}",)
            )
        options = [part for option in OPTIONS for part in ("-o", option)]
        program = self.binaries.program("pg_recvlogical")
        command = [str(program), "-d", source.dsn(), "--slot", "floor", "--start", "-n"]
        began = time.monotonic()
        subprocess.run([*command, "--endpos", end, "-f", "/dev/null", *options], check=True)
        taken_s = time.monotonic() - began
        source.execute("select pg_drop_replication_slot('floor')")
        return taken_s

    @contextmanager
    def _together(self, config: Config) -> Iterator[None]:
        self._go = multiprocessing.Event()
        process = multiprocessing.Process(target=receive_when, args=(config, self._go))
        process.start()
        self._receiver = process.pid
        with self._replaying(config):
            yield
        self._receiver = None
        process.terminate()
        process.join()

    @contextmanager
    def _alone(self, config: Config) -> Iterator[None]:
        self._go = multiprocessing.Event()
        with self._replaying(config):
            yield

    @contextmanager
    def _replaying(self, config: Config) -> Iterator[None]:
        replayer = Replayer(config, Applier(config))

        def run() -> None:
            self._go.wait()
            replayer.run()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            replayer.stop()
            thread.join()

    def _receive(self, config: Config, source: Database) -> None:
        Receiver(config, config.sources[source.name], notifier=Notifier({})).run(
            once=True, until=None
        )

    def _warm_up(
        self, source: Database, native: Database, config: Config, target: Database
    ) -> None:
        """Let both sides apply something once."""
        marker = source.value(f"insert into {MARKER} default values returning id")
        seen(native, "public", marker)
        self._receive(config, source)
        Replayer(config, Applier(config)).run(once=True)
        seen(target, f"{source.name}_public", marker)

    def _database(self, kind: str, workload: Workload) -> Database:
        if kind not in self.clusters:
            self.clusters[kind] = self.stack.enter_context(Cluster(binaries=self.binaries))
        database = Database(self.clusters[kind], workload.name)
        self.clusters[kind].create_database(workload.name)
        return database

    def _fill(self, source: Database, workload: Workload) -> None:
        if workload.script is None:
            self._pgbench(source, "-q", "-i", "-s", "10")
        else:
            source.execute(*workload.make.split(";"))
        source.execute(
            f"create table {MARKER} (id bigint generated always as identity primary key)"
        )

    def _load(self, source: Database, workload: Workload, count: int) -> None:
        script = []
        if workload.script is not None:
            path = self.folder / f"{workload.name}.sql"
            path.write_text(workload.script, encoding="utf-8")
            path.chmod(0o644)
            script = ["-f", str(path)]
        self._pgbench(source, "-n", "-c", "4", "-j", "2", "-t", str(count // 4), *script)

    def _subscribe(self, source: Database, native: Database) -> None:
        dump = subprocess.run(
            [self._program("pg_dump"), "-s", source.dsn()], check=True, capture_output=True
        ).stdout
        subprocess.run(
            [self._program("psql"), "-qX", native.dsn()],
            input=dump,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        source.execute("create publication bench for all tables")
        native.execute(
            f"create subscription bench connection '{source.dsn()}' publication bench"
            f" with (slot_name = 'native_{source.name}')"
        )
        wait_for(
            lambda: native.value(
                "select count(*) > 0 and bool_and(srsubstate = 'r') from pg_subscription_rel"
            )
        )

    def _pgbench(self, source: Database, *arguments: str) -> None:
        subprocess.run(
            [self._program("pgbench"), *arguments, source.dsn()], check=True, capture_output=True
        )

    def _program(self, name: str) -> Path:
        program = self.binaries.program(name)
        return program if program.exists() else Path(name)

    def _cpu(self) -> dict[str, float]:
        used = {kind: cpu_of(postmaster(cluster)) for kind, cluster in self.clusters.items()}
        jvm = find_below(os.getpid(), "java")
        workers = find_below(jvm, "python")
        receiver = 0.0 if self._receiver is None else cpu_of(self._receiver)
        whole = cpu_of(os.getpid())
        return {
            **used,
            "receiver": receiver,
            "workers": cpu_of(workers),
            "JVM": cpu_of(jvm) - cpu_of(workers),
            "driver": whole - cpu_of(jvm) - receiver,
        }

    def _used(self, begin: dict[str, float]) -> dict[str, float]:
        return {who: seconds - begin[who] for who, seconds in self._cpu().items()}


def receive_when(config: Config, go: EventType) -> None:
    (source,) = config.sources.values()
    receiver = Receiver(config, source, notifier=Notifier({}))
    go.wait()
    receiver.run(once=False, until=None)


def seen(database: Database, schema: str, marker: int) -> None:
    with database.connect() as connection:
        query = f"select count(*) from {schema}.{MARKER} where id = {marker}".encode()
        wait_for(lambda: connection.execute(query).fetchone() == (1,))


def published(target: Database, lsn: str) -> None:
    """Wait until the target shows all that committed up to a position, and what is behind it."""
    with target.connect() as connection:
        query = f"select exists (select from replication.binding where lsn > '{lsn}')".encode()
        wait_for(lambda: connection.execute(query).fetchone() == (True,))


def wait_for(is_there: Callable[[], object], limit_s: float = 600) -> None:
    end = time.monotonic() + limit_s
    while not is_there():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def postmaster(cluster: Cluster) -> int:
    return int((cluster.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of its children, those that ended included."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        own = int(path.parent.name)
        if own == pid or _is_below(own, pid):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def find_below(ancestor: int, program: str) -> int:
    """Return the first process of this name below another."""
    for path in sorted(Path("/proc").glob("[0-9]*/comm"), key=lambda path: int(path.parent.name)):
        try:
            name = path.read_text(encoding="utf-8")
        except OSError:
            continue
        pid = int(path.parent.name)
        if name.startswith(program) and _is_below(pid, ancestor):
            return pid
    return 0


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
        if pid == ancestor:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(w.name for w in WORKLOADS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of transactions")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--consistency", choices=("shard", "batch"), default="shard")
    parser.add_argument("--bindir", type=Path)
    arguments = parser.parse_args()
    logging.getLogger("pgrepl").setLevel(logging.ERROR)
    # A task waits for the target for about half of its time: a slot for each shard, whatever cores.
    master = f"local[{arguments.shards}]"
    session = build_session(SparkConfig(master=master), "pgrepl-bench", daemon=DAEMON)
    # One warm session for all rounds.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionInBackground, "stop", lambda _: None)
        patch.setattr(ShardJobs, "stop", lambda _: None)
        measure(arguments)
    session.stop()


def measure(arguments: argparse.Namespace) -> None:
    wanted = arguments.workloads.split(",")
    replay = ReplayConfig(shards=arguments.shards, consistency=arguments.consistency)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        bench = Bench(find_binaries(arguments.bindir), Path(folder), replay)
        with bench.stack:
            for workload in WORKLOADS:
                if workload.name in wanted:
                    bench.run(workload, arguments.scale)


if __name__ == "__main__":
    main()
