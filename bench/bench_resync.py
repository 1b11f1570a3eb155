"""How fast tables are copied again, both ways, beside the basebackup of the same table.

    PYTHONPATH=. python bench/bench_resync.py [--mb 100,400] [--rates 0,200,max] [--jobs 2]

Two throwaway servers, and receive and replay as programs. By size: nobody writes. By write rate:
two writers update single rows of the table, at a fixed rate together, while it is copied. Writes
docs/benchmarks/resync.md, and resync.json beside it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
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
CASES = {
    "equal": None,
    "1 %": "update shop_public.orders set note = 'x' where id % 100 = 0",
    "all": "update shop_public.orders set note = 'x'",
}
WRITERS = 2
#: How long the writers are alone, to compare with.
ALONE_S = 8.0
#: How long a resync under writers may take: replay may be slower than they are, for as long as they
#: write.
LIMIT_S = 90.0


class Site:
    """A source with one table, its copy, and the programs that keep it up to date."""

    def __init__(self, servers: tuple[Cluster, Cluster], folder: Path, mb: int, jobs: int) -> None:
        self.source, self.target = servers
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

    def timed(self, *arguments: str, limit_s: float | None = None) -> float:
        """Run a command of the program and return its seconds."""
        begin = time.monotonic()
        done = subprocess.run(
            self.program(*arguments), capture_output=True, text=True, check=False, timeout=limit_s
        )
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
        return time.monotonic() - begin

    def resync(self, way: str, table: str = "orders", limit_s: float | None = None) -> float:
        command = ("resync", "shop", f"public.{table}", "--way", way, "--jobs", str(self.jobs))
        return self.timed(*command, limit_s=limit_s)

    def resync_in_time(self, way: str) -> bool:
        """Copy the table, and say whether that ended while it was waited for."""
        try:
            self.resync(way, limit_s=LIMIT_S)
        except subprocess.TimeoutExpired:
            return False
        return True

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

    def await_replay(self) -> None:
        """Wait until the target shows a transaction of now."""
        self.run(self.source, "update orders set customer = customer where id = 1")
        now = self.value(self.source, "select pg_current_wal_insert_lsn() - '0/0'")
        query = "select coalesce(min(applied_lsn - '0/0'), 0) from replication.shard_progress"
        while self.value(self.target, query) < now:
            time.sleep(0.2)


def main() -> None:
    """Measure, print a line for each case, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", default="100,400,1600")
    parser.add_argument("--rates", default="0,200,1000,max")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--docs", type=Path, default=Path("docs/benchmarks"))
    given = parser.parse_args()
    sizes = [int(size) for size in given.mb.split(",")]
    measured = f"{datetime.now(UTC):%Y-%m-%d %H:%M}, load {os.getloadavg()[0]:.1f} before"
    result: dict[str, Any] = {"measured": measured, "jobs": given.jobs, "sizes": [], "rates": []}
    with Cluster() as source, Cluster() as target, tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            site = Site((source, target), Path(folder), size, given.jobs)
            result["sizes"].append(measure_size(site))
            write_report(given.docs, result)
            for row in measure_rates(site, given.rates.split(",") if size == sizes[0] else []):
                result["rates"].append(row)
                write_report(given.docs, result)
            for server in (source, target):
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    drop_slots(connection, site.dbname)
                    connection.execute(f"drop database {site.dbname} with (force)".encode())


def drop_slots(connection: psycopg.Connection, dbname: str) -> None:
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s",
        (dbname,),
    )


def measure_size(site: Site) -> dict[str, Any]:
    """Copy a table in every way while nobody writes."""
    seconds = {"basebackup": site.timed("basebackup", "shop", "--jobs", str(site.jobs))}
    say(site, "basebackup", seconds["basebackup"])
    for case, change in CASES.items():
        if change is not None:
            site.run(site.target, change)
        seconds[f"whole, {case}"] = site.resync("whole")
        say(site, f"whole, {case}", seconds[f"whole, {case}"])
    with site.following():
        site.await_replay()
        for case, change in CASES.items():
            if change is not None:
                site.run(site.target, change)
            seconds[f"chunked, {case}"] = site.resync("chunked")
            say(site, f"chunked, {case}", seconds[f"chunked, {case}"])
        for way in ("whole", "chunked"):
            site.make(f"new_{way}")
            site.await_replay()
            seconds[f"{way}, new"] = site.resync(way, f"new_{way}")
            say(site, f"{way}, new", seconds[f"{way}, new"])
    return {"mb": round(site.mb), "rows": site.rows, "seconds": seconds}


def measure_rates(site: Site, rates: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Copy a table both ways while it is written to."""
    if not rates:
        return
    with site.following():
        for rate in rates:
            for way in ("whole", "chunked"):
                site.await_replay()
                row = measure_rate(site, rate, way)
                print(row, flush=True)
                yield row


def measure_rate(site: Site, rate: str, way: str) -> dict[str, Any]:
    ended = []
    with writing(site, rate) as count:
        alone = paced(lambda: time.sleep(ALONE_S), count)[1] if rate != "0" else 0.0
        with watching_age(site) as ages:
            seconds, meanwhile = paced(lambda: ended.append(site.resync_in_time(way)), count)
    if ended == [False]:
        # Nobody writes any more: what is left of it ends soon.
        site.resync(way)
    return {
        "rate": rate,
        "way": way,
        "seconds": seconds,
        "is_ended": ended == [True],
        "tps_alone": alone,
        "tps_meanwhile": meanwhile,
        "oldest_s": max(ages, default=0.0),
        "median_age_s": statistics.median(ages) if ages else 0.0,
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


def say(site: Site, what: str, seconds: float) -> None:
    """Print a line."""
    pace = f"{site.mb / seconds:8.1f} MB/s {site.rows / seconds:10,.0f} rows/s"
    print(f"{site.mb:6.0f} MB {what:16} {seconds:7.1f} s {pace}", flush=True)


if __name__ == "__main__":
    main()
