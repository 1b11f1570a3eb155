"""How fast tables are copied again, both ways, beside the basebackup of the same table.

    PYTHONPATH=. python bench/bench_resync.py [--mb 256,1024,4096] [--rates 0,200,max] [--jobs 2]
        [--limit 300] [--minutes 12]

Two throwaway servers, and receive and replay as programs. By size: nobody writes; the smallest
table in all cases, the others in one of each way. By write rate: two writers update single rows of
the smallest table, at a fixed rate together, while it is copied. The peer is COPY of the same table
by psql, from one server into the other. Writes docs/benchmarks/resync.md, and resync.json beside
it, after each figure. What takes longer than ``--limit`` seconds is broken off, and so is whatever
is under way after ``--minutes``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.measuring.cpu import cpu_of, cpu_seconds
from bench.reporting.resync_report import write_report
from pgrepl.throwaway import Cluster

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

TABLE = (
    "create {kind} table {name} (id bigint primary key, customer integer not null, at timestamptz,"
    " amount numeric(12, 2), note text)"
)
#: A row is about a kilobyte on the disk.
ROWS = (
    "insert into {name} select g, g % 1000, now(), g / 100.0, repeat('n', 940)"
    " from generate_series(1, {rows}) g"
)
ROW_BYTES = 1024
#: What a larger table is measured in, too.
GROWTH = "1 %"
CASES = {
    "equal": None,
    "1 %": "update shop_public.orders set note = 'x' where id % 100 = 0",
    "all": "update shop_public.orders set note = 'x'",
}
WRITERS = 2
#: How long the writers are alone, to compare with.
ALONE_S = 5.0
PEER = "COPY by psql"


class Limits:
    """How long one figure may take, and until when another is begun."""

    def __init__(self, figure_s: float, minutes: float) -> None:
        self._figure_s = figure_s
        self._until = time.monotonic() + 60 * minutes

    @property
    def figure_s(self) -> float:
        return max(min(self._figure_s, self._until - time.monotonic()), 0.0)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until


class Site:
    """A source with one table, its copy, and the programs that keep it up to date."""

    def __init__(
        self, servers: tuple[Cluster, Cluster], folder: Path, mb: int, jobs: int, limits: Limits
    ) -> None:
        self.source, self.target = servers
        self.limits = limits
        self.dbname = f"mb_{mb}"
        self.rows = mb * 1024 * 1024 // ROW_BYTES
        self.jobs = jobs
        for server in servers:
            server.create_database(self.dbname)
        self.config = folder / f"{self.dbname}.toml"
        self.config.write_text(
            f"[target]\ndsn = {json.dumps(self.target.dsn(self.dbname))}\n"
            '[spark]\nmaster = "local[2]"\n'
            f"[sources.shop]\ndsn = {json.dumps(self.source.dsn(self.dbname))}\n"
            f'slot = "pgrepl_{self.dbname}"\nschema = "shop_{{schema}}"\n',
            encoding="utf-8",
        )
        self.make("orders")
        self.mb = self.value(self.source, "select pg_table_size('orders')") / 2**20

    def make(self, name: str) -> None:
        """Make a table so that its rows are not in the stream: nobody has to receive them."""
        self.run(self.source, TABLE.format(kind="unlogged", name=name))
        self.run(self.source, ROWS.format(name=name, rows=self.rows))
        self.run(self.source, f"alter table {name} set logged")
        self.run(self.source, f"vacuum analyze {name}")

    def run(self, server: Cluster, statement: str) -> None:
        with psycopg.connect(server.dsn(self.dbname), autocommit=True) as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute(statement.encode())

    def value(self, server: Cluster, query: str) -> float:
        with psycopg.connect(server.dsn(self.dbname)) as connection:
            ((value,),) = connection.execute(query.encode()).fetchall()
        return float(value)

    def program(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pgrepl.cli", *arguments, "--config", str(self.config)]

    def timed(self, command: Sequence[str]) -> dict[str, float] | None:
        """Run a command and return its seconds, by the clock and of all CPUs; None: over limit."""
        begin, used = time.monotonic(), self.cpu_s()
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.limits.figure_s,
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
        return {"s": time.monotonic() - begin, "cpu_s": self.cpu_s() - used}

    def cpu_s(self) -> float:
        """Return what servers and programs have used so far."""
        return cpu_of(os.getpid()) + sum(map(cpu_seconds, (self.source, self.target)))

    def basebackup(self) -> dict[str, float] | None:
        return self.timed(self.program("basebackup", "shop", "--jobs", str(self.jobs)))

    def resync(self, way: str, table: str = "orders") -> dict[str, float] | None:
        command = ("resync", "shop", f"public.{table}", "--way", way, "--jobs", str(self.jobs))
        with watching_age(self) as ages:
            measured = self.timed(self.program(*command))
        return None if measured is None else {**measured, "oldest_s": max(ages, default=0.0)}

    def copy_by_psql(self) -> dict[str, float] | None:
        """Copy the table as a person would, with its key afterwards."""
        self.run(self.target, TABLE.format(kind="", name="by_hand").replace(" primary key", ""))
        read, write = (
            shlex.join(["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", server.dsn(self.dbname)])
            for server in (self.source, self.target)
        )
        pipe = (
            f"{read} -c 'copy orders to stdout (format binary)'"
            f" | {write} -c 'copy by_hand from stdin (format binary)'"
            " -c 'alter table by_hand add primary key (id)'"
        )
        measured = self.timed(["bash", "-o", "pipefail", "-c", pipe])
        self.run(self.target, "drop table by_hand")
        return measured

    @contextmanager
    def following(self) -> Iterator[None]:
        """Receive and replay."""
        begun = [
            subprocess.Popen(self.program(*command), stderr=subprocess.DEVNULL)
            for command in (("receive", "shop"), ("replay",))
        ]
        try:
            yield
        finally:
            for process in begun:
                process.terminate()
            for process in begun:
                process.wait()

    def await_spark(self) -> None:
        """Wait until replay's session of Spark is there: its start is no part of what follows."""
        # More than the driver applies by itself.
        self.await_replay(20_000)

    def await_replay(self, rows: int = 1) -> None:
        """Wait until the target shows a transaction of now."""
        self.run(self.source, f"update orders set customer = customer where id <= {rows}")
        now = self.value(self.source, "select pg_current_wal_insert_lsn() - '0/0'")
        query = "select coalesce(min(applied_lsn - '0/0'), 0) from replication.shard_progress"
        while self.value(self.target, query) < now:
            time.sleep(0.2)


def main() -> None:
    """Measure, print a line for each figure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", default="256,1024,4096")
    parser.add_argument("--rates", default="0,200,1000,max")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one figure")
    parser.add_argument("--minutes", type=float, default=12.0, help="for all of it")
    parser.add_argument("--docs", type=Path, default=Path("docs/benchmarks"))
    given = parser.parse_args()
    sizes = [int(size) for size in given.mb.split(",")]
    measured = f"{datetime.now(UTC):%Y-%m-%d %H:%M}, load {os.getloadavg()[0]:.1f} before"
    result: dict[str, Any] = {"measured": measured, "jobs": given.jobs, "sizes": [], "rates": []}
    limits = Limits(given.limit, given.minutes)
    with Cluster() as source, Cluster() as target, tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            if limits.is_over:
                break
            site = Site((source, target), Path(folder), size, given.jobs, limits)
            figures: dict[str, Any] = {}
            entry = {"mb": round(site.mb), "rows": site.rows, "figures": figures}
            result["sizes"].append(entry)
            for what, figure in measure_size(site, is_full=size == sizes[0]):
                figures[what] = figure
                say(site, what, figure)
                write_report(given.docs, result)
            for row in measure_rates(site, given.rates.split(",") if size == sizes[0] else []):
                print(row, flush=True)
                result["rates"].append(row)
                write_report(given.docs, result)
            result["ended"] = f"load {os.getloadavg()[0]:.1f} after"
            for server in (source, target):
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    drop_slots(connection, site.dbname)
                    connection.execute(f"drop database {site.dbname} with (force)".encode())


def drop_slots(connection: psycopg.Connection, dbname: str) -> None:
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s",
        (dbname,),
    )


def measure_size(site: Site, *, is_full: bool) -> Iterator[tuple[str, dict[str, float] | None]]:
    """Copy a table in every way while nobody writes, as long as there is time."""
    yield "basebackup", site.basebackup()
    yield PEER, site.copy_by_psql()
    cases = list(CASES) if is_full else [GROWTH]
    for case in cases:
        yield from measure_case(site, "whole", case)
    with site.following():
        site.await_spark()
        for case in cases:
            yield from measure_case(site, "chunked", case)
        for way in ("whole", "chunked") if is_full else ():
            if not site.limits.is_over:
                site.make(f"new_{way}")
                site.await_replay()
                yield f"{way}, new", site.resync(way, f"new_{way}")


def measure_case(site: Site, way: str, case: str) -> Iterator[tuple[str, dict[str, float] | None]]:
    if site.limits.is_over:
        return
    change = CASES[case]
    if change is not None:
        site.run(site.target, change)
    yield f"{way}, {case}", site.resync(way)


def measure_rates(site: Site, rates: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Copy a table both ways while it is written to, as long as there is time."""
    if not rates:
        return
    with site.following():
        site.await_spark()
        for rate in rates:
            for way in ("whole", "chunked"):
                if not site.limits.is_over:
                    site.await_replay()
                    yield measure_rate(site, rate, way)


def measure_rate(site: Site, rate: str, way: str) -> dict[str, Any]:
    ended: list[dict[str, float] | None] = []
    with writing(site, rate) as count:
        alone = paced(lambda: time.sleep(ALONE_S), count)[1] if rate != "0" else 0.0
        seconds, meanwhile = paced(lambda: ended.append(site.resync(way)), count)
    (measured,) = ended
    if measured is None:
        # Nobody writes any more: what is left of it ends soon.
        site.resync(way)
    return {
        "rate": rate,
        "way": way,
        "seconds": seconds,
        "is_ended": measured is not None,
        "tps_alone": alone,
        "tps_meanwhile": meanwhile,
        "oldest_s": 0.0 if measured is None else measured["oldest_s"],
    }


def paced(act: Callable[[], object], count: Callable[[], int]) -> tuple[float, float]:
    """Return how long something takes, and how many transactions a second there were meanwhile."""
    begin, before = time.monotonic(), count()
    act()
    seconds = time.monotonic() - begin
    return seconds, (count() - before) / seconds


@contextmanager
def writing(site: Site, rate: str) -> Iterator[Callable[[], int]]:
    """Update rows all the time, in processes of their own; yield how many transactions ended."""
    counts = [multiprocessing.Value("q", 0) for _ in range(WRITERS)]
    pause = 0.0 if rate in ("0", "max") else WRITERS / float(rate)
    dsn = site.source.dsn(site.dbname)
    writers = [
        multiprocessing.Process(target=write, args=(dsn, site.rows, pause, count), daemon=True)
        for count in counts
    ]
    for writer in writers if rate != "0" else ():
        writer.start()
    try:
        yield lambda: sum(count.value for count in counts)
    finally:
        for writer in writers if rate != "0" else ():
            writer.terminate()
            writer.join()


def write(dsn: str, rows: int, pause: float, count: Synchronized[int]) -> None:
    """Update single rows until it is ended."""
    dice = random.Random()
    next_at = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            connection.execute(
                "update orders set customer = customer + 1 where id = %s",
                (dice.randrange(1, rows + 1),),
                prepare=True,
            )
            count.value += 1
            next_at += pause
            time.sleep(max(next_at - time.monotonic(), 0.0))


@contextmanager
def watching_age(site: Site) -> Iterator[list[float]]:
    """Look ten times a second how old the oldest snapshot of pgrepl on the source is."""
    ages: list[float] = []
    stop = threading.Event()

    def look() -> None:
        with psycopg.connect(site.source.dsn(site.dbname), autocommit=True) as connection:
            while not stop.wait(0.1):
                ((age,),) = connection.execute(
                    "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)"
                    " from pg_stat_activity where application_name like 'pgrepl%'"
                    " and backend_xmin is not null and backend_type = 'client backend'"
                ).fetchall()
                ages.append(float(age))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield ages
    finally:
        stop.set()
        thread.join()


def say(site: Site, what: str, measured: dict[str, float] | None) -> None:
    """Print a line."""
    if measured is None:
        print(f"{site.mb:6.0f} MB {what:16} not in time", flush=True)
        return
    seconds, cpu_s = measured["s"], measured["cpu_s"]
    pace = f"{cpu_s:7.1f} CPU s {site.mb / seconds:8.1f} MB/s {site.rows / seconds:10,.0f} rows/s"
    print(f"{site.mb:6.0f} MB {what:16} {seconds:7.1f} s {pace}", flush=True)


if __name__ == "__main__":
    main()
