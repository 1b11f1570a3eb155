"""Receive into the spool beside ``pg_recvlogical`` into a file: same slot position, same run.

Both read the same WAL from copies of one slot, in turns, several rounds; the best round of each
counts, because on a shared machine others only ever make a round slower. The goal is 0.8.

    PYTHONPATH=. python bench/bench_receive.py [--transactions 100000] [--rounds 3] [--bindir DIR]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.cpu import cpu_seconds, own_cpu_seconds
from pgrepl.throwaway import Cluster, find_binaries
from tests.support.database import Database
from tests.support.streaming import Streaming

OPTIONS = (
    *("format-version=2", "include-xids=1", "include-timestamp=1", "include-lsn=1"),
    *("include-origin=1", "include-types=0", "add-msg-prefixes=pgrepl"),
)


@dataclass(frozen=True)
class Round:
    wall_s: float
    own_s: float
    source_s: float
    target_s: float


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


def copy_slot(source: Database, slot: str) -> str:
    name = f"{slot}_copy"
    with source.connect() as connection:
        connection.execute("select pg_copy_logical_replication_slot(%s, %s)", (slot, name))
    return name


def recvlogical(streaming: Streaming, end: str, folder: str) -> Round:
    slot = copy_slot(streaming.source, streaming.slot)
    options = [part for option in OPTIONS for part in ("-o", option)]
    program = streaming.source.cluster.binaries.program("pg_recvlogical")
    command = [str(program), "-d", streaming.source.dsn(), "--slot", slot, "--start", "-n"]
    command += ["--endpos", end, "-f", f"{folder}/out", *options]
    done = timed(streaming, command)
    with streaming.source.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))
    return done


def receive(streaming: Streaming, end: str) -> tuple[Round, Round]:
    """Receive nothing, then everything, and put the slot back to where it was."""
    slot = copy_slot(streaming.source, streaming.slot)
    command = [sys.executable, "-m", "pgrepl.cli", "receive", streaming.name]
    command += ["--config", str(streaming.config), "--until-lsn"]
    start = streaming.target.value("select consistent_point::text from replication.source")
    nothing = timed(streaming, [*command, start])
    done = timed(streaming, [*command, end])
    with streaming.source.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (streaming.slot,))
        connection.execute(
            "select pg_copy_logical_replication_slot(%s, %s)", (slot, streaming.slot)
        )
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))
    return nothing, done


def reset_target(streaming: Streaming) -> None:
    slot = streaming.slot
    with psycopg.connect(streaming.target.dsn(), autocommit=True) as connection:
        connection.execute("truncate replication.raw_messages, replication.receive_progress")
        connection.execute("select pg_replication_origin_drop(%s)", (slot,))
        connection.execute("select pg_replication_origin_create(%s)", (slot,))
        connection.execute(
            "select pg_replication_origin_advance(%s, consistent_point) from replication.source",
            (slot,),
        )


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
        streaming = Streaming(source, target, Path(folder))
        streaming.begin()
        run_load(source, arguments.transactions)
        end = source.value("select pg_current_wal_insert_lsn()::text")
        source.execute("create table behind (id int)")  # WAL behind the end, so that both reach it
        messages = source.value(
            "select count(*) from pg_logical_slot_peek_changes("
            f"'{streaming.slot}', null, null, 'format-version', '2')"
        )
        theirs, ours, idle = [], [], []
        for _ in range(arguments.rounds):
            theirs.append(recvlogical(streaming, end, folder))
            nothing, done = receive(streaming, end)
            idle.append(nothing)
            ours.append(done)
            size = target.value("select sum(pg_column_size(payload)) from replication.raw_messages")
            rows = target.value("select count(*) from replication.raw_messages")
            reset_target(streaming)
        report(messages, theirs, ours, min(one.wall_s for one in idle))
        # pg_recvlogical appends to its file, round after round.
        raw = (Path(folder) / "out").stat().st_size / arguments.rounds
        print(f"spool: {rows} rows, {size / 1e6:.1f} MB for {raw / 1e6:.1f} MB of lines")


def report(messages: int, theirs: list[Round], ours: list[Round], start_s: float) -> None:
    for name, rounds in (("pg_recvlogical to a file", theirs), ("pgrepl receive", ours)):
        best = min(rounds, key=lambda one: one.wall_s)
        every = ", ".join(f"{one.wall_s:.2f}" for one in rounds)
        print(
            f"{name:26} {messages / best.wall_s:10,.0f} messages/s"
            f"   best {best.wall_s:.2f} s of ({every})   CPU {best.own_s:.2f} s its own,"
            f" {best.source_s:.2f} s the source's, {best.target_s:.2f} s the target's"
        )
    best_s = min(one.wall_s for one in theirs)
    own_s = min(one.wall_s for one in ours)
    print(
        f"{messages} messages, ratio {best_s / (own_s - start_s):.2f} (goal 0.80);"
        f" {best_s / own_s:.2f} with the {start_s:.2f} s that the program takes to start and end"
    )


if __name__ == "__main__":
    main()
