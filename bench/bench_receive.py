"""Receive a backlog into the spool, streamed and pulled, beside ``pg_recvlogical`` into a file.

All read the same WAL, in turns, several rounds, with wal2json and with pgoutput. A shared machine
is fast in one minute and slow in the next, so each round has its own ratio to ``pg_recvlogical``
with wal2json, and the median counts; who is first changes from round to round. CPU seconds are
those of each side alone, without what the program takes to start and end. The source is reached by
TCP, as one on another machine is, and then by a Unix socket, which holds a millisecond of messages:
there the walsender waits for every hitch of its receiver.

    PYTHONPATH=. python bench/bench_receive.py [--transactions 100000] [--rounds 3] [--bindir DIR]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import median

import psycopg

from bench.measuring.cpu import cpu_seconds, own_cpu_seconds
from pgrepl.throwaway import Cluster, find_binaries
from tests.support.database import Database
from tests.support.running.streaming import Streaming

OPTIONS = (
    *("format-version=2", "include-xids=1", "include-timestamp=1", "include-lsn=1"),
    *("include-origin=1", "include-types=0", "add-msg-prefixes=pgrepl"),
)


PEER = "pg_recvlogical, wal2json"


@dataclass(frozen=True)
class Round:
    wall_s: float
    own_s: float
    source_s: float
    target_s: float

    @property
    def values(self) -> tuple[float, float, float, float]:
        return self.wall_s, self.own_s, self.source_s, self.target_s


def timed(streaming: Streaming, command: list[str]) -> Round:
    """Run a program and return its wall time and the CPU times of all three sides."""
    clusters = streaming.source.cluster, streaming.target.cluster
    before = [own_cpu_seconds(), *map(cpu_seconds, clusters)]
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall_s = time.monotonic() - began
    after = [own_cpu_seconds(), *map(cpu_seconds, clusters)]
    return Round(wall_s, *(end - begin for begin, end in zip(before, after, strict=True)))


def make_load(source: Database, scale: int) -> None:
    """Run pgbench's own transactions: four changed rows each."""
    pgbench = source.cluster.binaries.program("pgbench")
    program = pgbench if pgbench.exists() else Path("pgbench")
    subprocess.run(
        [program, "-q", "-i", "-s", str(scale), source.dsn()], check=True, capture_output=True
    )
    source.execute("alter table pgbench_history replica identity full")


def run_load(source: Database, transactions: int) -> None:
    pgbench = source.cluster.binaries.program("pgbench")
    program = pgbench if pgbench.exists() else Path("pgbench")
    each = str(transactions // 4)
    subprocess.run(
        [program, "-n", "-c", "4", "-j", "2", "-t", each, source.dsn()],
        check=True,
        capture_output=True,
    )


def copy_slot(source: Database, slot: str, name: str) -> None:
    with source.connect() as connection:
        connection.execute("select pg_copy_logical_replication_slot(%s, %s)", (slot, name))


def drop_slot(source: Database, slot: str) -> None:
    with source.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))


def recvlogical(streaming: Streaming, dsn: str, end: str, out: Path) -> Round:
    slot = f"{streaming.slot}_copy"
    copy_slot(streaming.source, streaming.slot, slot)
    options = [part for option in OPTIONS for part in ("-o", option)]
    program = streaming.source.cluster.binaries.program("pg_recvlogical")
    command = [str(program), "-d", dsn, "--slot", slot, "--start", "-n"]
    command += ["--endpos", end, "-f", str(out), *options]
    done = timed(streaming, command)
    out.unlink()
    drop_slot(streaming.source, slot)
    return done


def receive(streaming: Streaming, dsn: str, end: str, backlog: str) -> Round:
    """Receive nothing, then everything, and put slot and target back to where they were."""
    source, slot = streaming.source, streaming.slot
    streaming.write_config(dsn=dsn, backlog=backlog)
    copy_slot(source, slot, f"{slot}_copy")
    command = [sys.executable, "-m", "pgrepl.cli", "receive", streaming.name]
    command += ["--config", str(streaming.config), "--until-lsn"]
    start = streaming.target.value(
        f"select consistent_point::text from replication.source where slot = '{slot}'"
    )
    nothing = timed(streaming, [*command, start])
    done = timed(streaming, [*command, end])
    drop_slot(source, slot)
    copy_slot(source, f"{slot}_copy", slot)
    drop_slot(source, f"{slot}_copy")
    ((rows, size),) = streaming.target.rows(
        "select count(*), sum(pg_column_size(payload)) from replication.raw_messages"
    )
    print(f"  spool of {slot}: {rows} rows, {size / 1e6:.1f} MB", file=sys.stderr)
    reset_target(streaming)
    return Round(*(one - other for one, other in zip(done.values, nothing.values, strict=True)))


def reset_target(streaming: Streaming) -> None:
    slot = streaming.slot
    with psycopg.connect(streaming.target.dsn(), autocommit=True) as connection:
        connection.execute("truncate replication.raw_messages, replication.receive_progress")
        connection.execute("select pg_replication_origin_drop(%s)", (slot,))
        connection.execute("select pg_replication_origin_create(%s)", (slot,))
        connection.execute(
            "select pg_replication_origin_advance(%s, consistent_point) from replication.source"
            " where slot = %s",
            (slot, slot),
        )


def begin(source: Database, target: Database, folder: Path, plugin: str) -> Streaming:
    (folder / plugin).mkdir()
    streaming = Streaming(source, target, folder / plugin, {"plugin": plugin}, name=plugin)
    streaming.slot_suffix = f"_{plugin}"
    streaming.begin()
    return streaming


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bindir", type=Path)
    arguments = parser.parse_args()
    binaries = find_binaries(arguments.bindir)
    with (
        Cluster(binaries=binaries) as one,
        Cluster(binaries=binaries) as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        source, target = Database(one, "source"), Database(other, "target")
        one.create_database("source")
        other.create_database("target")
        make_load(source, 10)
        by_plugin = {
            plugin: begin(source, target, Path(folder), plugin)
            for plugin in ("wal2json", "pgoutput")
        }
        run_load(source, arguments.transactions)
        end = source.value("select pg_current_wal_insert_lsn()::text")
        source.execute("create table later (id int)")  # WAL after the end, so that all reach it
        password = token_hex(8)
        source.execute(f"alter role postgres password '{password}'")
        by_tcp = source.dsn(host="127.0.0.1", password=password)
        for transport, dsn in (("TCP", by_tcp), ("Unix socket", source.dsn())):
            print(f"by {transport}:")
            report(arguments.transactions, compare(by_plugin, dsn, end, arguments.rounds))


def compare(
    by_plugin: Mapping[str, Streaming], dsn: str, end: str, round_count: int
) -> dict[str, list[Round]]:
    """Run all, in turns."""
    peer = by_plugin["wal2json"]
    runs: dict[str, Callable[[], Round]] = {
        PEER: lambda: recvlogical(peer, dsn, end, peer.folder / "out"),
    }
    for plugin, streaming in by_plugin.items():
        for backlog in ("stream", "pull"):
            runs[f"pgrepl receive, {plugin}, {backlog}"] = partial(
                receive, streaming, dsn, end, backlog
            )
    found: dict[str, list[Round]] = {name: [] for name in runs}
    for number in range(round_count):
        for name in list(runs) if number % 2 == 0 else list(runs)[::-1]:
            found[name].append(runs[name]())
    return found


def report(transactions: int, found: Mapping[str, list[Round]]) -> None:
    for name, rounds in found.items():
        wall_s, own_s, source_s, target_s = (
            median(one.values[at] for one in rounds) for at in range(4)
        )
        ratio = median(
            peer.wall_s / one.wall_s for peer, one in zip(found[PEER], rounds, strict=True)
        )
        print(
            f"  {name:34} {ratio:5.2f} times {transactions / wall_s:9,.0f} transactions/s"
            f"   {wall_s:6.2f} s   CPU s: source {source_s:5.2f}, its own {own_s:5.2f},"
            f" target {target_s:5.2f}"
        )


if __name__ == "__main__":
    main()
