"""Throughput of a basebackup beside its peers, on the same data in one run.

    PYTHONPATH=. python bench/bench_basebackup.py [--megabytes 2400] [--jobs 2] [--rounds 2]

Two shapes of the same size: eight tables, and one big table. Each tool copies schema, rows and
primary keys from one throwaway server into another and leaves it with statistics, those that do
not collect them by ``vacuumdb``; how long that took is said. Every other round goes in reverse,
because who is first has the server make its WAL files, and who follows finds them made; the best
round counts.
pgrepl's time is given by its phases, because some of them cost the same however much is copied. CPU
seconds of the tool and of both servers say more than the clock where the machine has other work.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

import psycopg

from bench.measuring.cpu import cpu_seconds, own_cpu_seconds
from pgrepl.throwaway import Cluster

SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_sync_workers_per_subscription": "8",
    "max_logical_replication_workers": "16",
    "max_worker_processes": "32",
    "output_plugin_libraries": "pgoutput, test_decoding, wal2json",
    "max_wal_size": "8GB",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
}
SHAPES = {"eight tables": 8, "one big table": 1}
ROW_BYTES = 135  # of a row below on disk
MB = 1024 * 1024
PGREPL = "pgrepl basebackup"


@dataclass(frozen=True)
class Result:
    """How long one tool took."""

    tool: str
    seconds: float
    note: str = ""
    cpu: str = ""


@dataclass(frozen=True)
class Arena:
    """Two servers and what is copied between them."""

    source: Cluster
    target: Cluster
    dbname: str
    jobs: int
    folder: Path

    def run(self, *command: str | Path) -> None:
        """Run a program, quietly."""
        subprocess.run(command, check=True, capture_output=True)

    def program(self, name: str) -> Path:
        """Return a program of the servers' version."""
        return self.source.binaries.program(name)


def fill(source: Cluster, dbname: str, tables: int, megabytes: int) -> None:
    """Make tables of the same total size."""
    rows = megabytes * MB // ROW_BYTES // tables
    source.create_database(dbname)
    with psycopg.connect(source.dsn(dbname), autocommit=True) as connection:
        for number in range(tables):
            make_table(connection, f"t{number}", rows)
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def make_table(connection: psycopg.Connection, name: str, rows: int) -> None:
    """Make one table of plain rows."""
    connection.execute(
        f"create table {name} (id bigint, at timestamptz, amount numeric, note text)".encode()
    )
    connection.execute(
        f"insert into {name} select g, '2026-01-01'::timestamptz + g * interval '1 s', g / 7.0,"
        f" repeat(md5(g::text), 2) from generate_series(1, {rows}) g".encode()
    )
    connection.execute(f"alter table {name} add primary key (id)".encode())


def clean(arena: Arena) -> None:
    """Give the next tool an empty database, and the server a quiet start."""
    with psycopg.connect(arena.target.dsn(), autocommit=True) as connection:
        connection.execute("drop database if exists copy with (force)")
        connection.execute("create database copy")
        connection.execute("checkpoint")


def with_pgrepl(arena: Arena) -> Result:
    """Run ``pgrepl basebackup``."""
    config = arena.folder / "pgrepl.toml"
    config.write_text(
        f'[target]\ndsn = "{arena.target.dsn("copy")}"\n'
        f'[sources.{arena.dbname}]\ndsn = "{arena.source.dsn(arena.dbname)}"\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pgrepl.cli", "basebackup", arena.dbname]
    options = ["--jobs", str(arena.jobs), "--config", str(config), "--log-format", "json", "--json"]
    with Memory() as memory:
        begin, begin_at = time.monotonic(), time.time()
        done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
        seconds, end_at = time.monotonic() - begin, time.time()
    if done.returncode != 0:
        sys.exit(done.stderr)
    with psycopg.connect(arena.source.dsn(arena.dbname), autocommit=True) as connection:
        connection.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
    note = f"{phases(done.stderr, begin_at, end_at)}; a copying process's peak {memory.peak_mb} MB"
    return Result(PGREPL, seconds, note)


def phases(log: str, begin_at: float, end_at: float) -> str:
    """Say how long pgrepl took for what."""
    entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    at = {entry["event"]: datetime.fromisoformat(entry["at"]).timestamp() for entry in entries}
    after = ("data", "keys", "statistics")
    edges = [begin_at, *(at[f"basebackup: {phase}"] for phase in after), end_at]
    names = ("before the data", *after)
    times = zip(names, edges, edges[1:], strict=False)
    spark = ", Spark took over" if "Spark takes over" in at else ""
    return ", ".join(f"{end - begin:.1f} s {name}" for name, begin, end in times) + spark


class Memory:
    """Watch the memory of the processes that copy: Spark's Python workers, and our own."""

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.peak_mb = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    command = (status.parent / "cmdline").read_bytes()
                    found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
                except OSError:
                    continue
                if found and (b"pyspark.daemon" in command or b"basebackup.helper" in command):
                    self.peak_mb = max(self.peak_mb, int(found[1]) // 1024)


def analyze(arena: Arena) -> str:
    """Collect the statistics that a tool has not, and say how long it took."""
    begin = time.monotonic()
    jobs = ("-j", str(arena.jobs))
    arena.run(arena.program("vacuumdb"), "-d", arena.target.dsn("copy"), "--analyze-only", *jobs)
    return f"{time.monotonic() - begin:.1f} s of it statistics"


def with_dump(arena: Arena) -> Result:
    """Run ``pg_dump`` into a folder and ``pg_restore`` out of it, both with all jobs."""
    folder = arena.folder / "dump"
    begin = time.monotonic()
    arena.run(
        *(arena.program("pg_dump"), "-d", arena.source.dsn(arena.dbname), "-Fd", "-Z0"),
        *("-j", str(arena.jobs), "-f", folder),
    )
    arena.run(
        *(arena.program("pg_restore"), "-d", arena.target.dsn("copy"), "-j", str(arena.jobs)),
        folder,
    )
    note = analyze(arena)
    seconds = time.monotonic() - begin
    shutil.rmtree(folder)
    return Result("pg_dump | pg_restore -j", seconds, note)


def with_subscription(arena: Arena) -> Result:
    """Let native logical replication copy the tables; the schema by ``pg_dump``."""
    begin = time.monotonic()
    schema = subprocess.run(
        [arena.program("pg_dump"), "-d", arena.source.dsn(arena.dbname), "--schema-only"],
        check=True,
        capture_output=True,
    ).stdout
    psql = (str(arena.program("psql")), "-Xq", "-d", arena.target.dsn("copy"))
    subprocess.run(psql, input=schema, check=True, capture_output=True)
    with (
        psycopg.connect(arena.source.dsn(arena.dbname), autocommit=True) as source,
        psycopg.connect(arena.target.dsn("copy"), autocommit=True) as target,
    ):
        source.execute("create publication bench for all tables")
        connection = f"create subscription bench connection '{arena.source.dsn(arena.dbname)}'"
        target.execute(f"{connection} publication bench".encode())
        left = "select count(*) from pg_subscription_rel where srsubstate not in ('r', 's')"
        while target.execute(left.encode()).fetchone() != (0,):
            time.sleep(0.05)
        note = analyze(arena)
        seconds = time.monotonic() - begin
        target.execute("drop subscription bench")
        source.execute("drop publication bench")
    return Result("native initial sync", seconds, note)


def with_pgcopydb(arena: Arena) -> Result | None:
    """Run ``pgcopydb clone``, where it is installed."""
    program = shutil.which("pgcopydb")
    if program is None:
        return None
    begin = time.monotonic()
    arena.run(
        *(program, "clone", "--source", arena.source.dsn(arena.dbname)),
        *("--target", arena.target.dsn("copy"), "--dir", arena.folder / "pgcopydb", "--restart"),
        *("--table-jobs", str(arena.jobs), "--index-jobs", str(arena.jobs)),
        *("--split-tables-larger-than", "64MB", "--no-acl", "--no-owner"),
    )
    return Result("pgcopydb clone", time.monotonic() - begin)


TOOLS: tuple[Callable[[Arena], Result | None], ...] = (
    with_pgrepl,
    with_dump,
    with_subscription,
    with_pgcopydb,
)


def measure(arena: Arena, shape: str, megabytes: int, rounds: int) -> None:
    """Run every tool on one shape and print figures and ratios."""
    print(f"{shape}, {megabytes} MB, {arena.jobs} jobs; CPU: the tool + source + target")
    results: dict[str, list[Result]] = {}
    for number in range(rounds):
        for tool in TOOLS if number % 2 == 0 else TOOLS[::-1]:
            clean(arena)
            before = own_cpu_seconds(), cpu_seconds(arena.source), cpu_seconds(arena.target)
            result = tool(arena)
            after = own_cpu_seconds(), cpu_seconds(arena.source), cpu_seconds(arena.target)
            if result is not None:
                used = [f"{end - begin:.1f}" for begin, end in zip(before, after, strict=True)]
                result = replace(result, cpu=" + ".join(used))
                results.setdefault(result.tool, []).append(result)
    best = {tool: min(own, key=lambda one: one.seconds) for tool, own in results.items()}
    for name, result in best.items():
        every = ", ".join(f"{one.seconds:.1f}" for one in results[name])
        print(
            f"  {name:24} best {result.seconds:5.1f} s of ({every})"
            f" {megabytes / result.seconds:6.1f} MB/s  {result.cpu} s of CPU  {result.note}"
        )
    peer = min(result.seconds for name, result in best.items() if name != PGREPL)
    print(f"  the best of its peers takes {peer / best[PGREPL].seconds:.2f} of pgrepl's time")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=2400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(settings=SETTINGS) as source,
        Cluster(settings=SETTINGS) as target,
    ):
        for shape, tables in SHAPES.items():
            fill(source, f"bench_{tables}", tables, arguments.megabytes)
            arena = Arena(source, target, f"bench_{tables}", arguments.jobs, Path(folder))
            measure(arena, shape, arguments.megabytes, arguments.rounds)


if __name__ == "__main__":
    main()
