"""Receive into the spool beside ``pg_recvlogical`` into a file: same slot position, same run.

Both read the same WAL from copies of one slot, in turns, several rounds. A shared machine is fast
in one minute and slow in the next, so each round has its own ratio, and the median counts; who is
first changes from round to round. The goal is 0.8. The source is reached by TCP, as one on another
machine is, and then by a Unix socket, which holds a millisecond of messages: there the walsender
waits for every hitch of its receiver.

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
from secrets import token_hex
from statistics import median

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


def recvlogical(streaming: Streaming, dsn: str, end: str, out: Path) -> Round:
    slot = copy_slot(streaming.source, streaming.slot)
    options = [part for option in OPTIONS for part in ("-o", option)]
    program = streaming.source.cluster.binaries.program("pg_recvlogical")
    command = [str(program), "-d", dsn, "--slot", slot, "--start", "-n"]
    command += ["--endpos", end, "-f", str(out), *options]
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
        password = token_hex(8)
        source.execute(f"alter role postgres password '{password}'")
        by_tcp = source.dsn(host="127.0.0.1", password=password)
        print(f"{messages} messages")
        for transport, dsn in (("TCP", by_tcp), ("Unix socket", source.dsn())):
            streaming.write_config(dsn=dsn)
            print(f"by {transport}:")
            compare(streaming, dsn, messages, end, arguments.rounds)


def compare(streaming: Streaming, dsn: str, messages: int, end: str, round_count: int) -> None:
    """Run both, in turns."""
    theirs, ours, idle = [], [], []
    out = streaming.folder / "out"
    for number in range(round_count):
        for is_ours in (number % 2 == 0, number % 2 == 1):
            if not is_ours:
                theirs.append(recvlogical(streaming, dsn, end, out))
                raw_bytes = out.stat().st_size
                out.unlink()
                continue
            nothing, done = receive(streaming, end)
            idle.append(nothing)
            ours.append(done)
            ((rows, size),) = streaming.target.rows(
                "select count(*), sum(pg_column_size(payload)) from replication.raw_messages"
            )
            reset_target(streaming)
    report(messages, theirs, ours, min(one.wall_s for one in idle))
    print(f"  spool: {rows} rows, {size / 1e6:.1f} MB for {raw_bytes / 1e6:.1f} MB of lines")


def report(messages: int, theirs: list[Round], ours: list[Round], start_s: float) -> None:
    for name, rounds in (("pg_recvlogical to a file", theirs), ("pgrepl receive", ours)):
        best = min(rounds, key=lambda one: one.wall_s)
        every = ", ".join(f"{one.wall_s:.2f}" for one in rounds)
        print(
            f"  {name:26} {messages / best.wall_s:10,.0f} messages/s"
            f"   best {best.wall_s:.2f} s of ({every})   CPU {best.own_s:.2f} s its own,"
            f" {best.source_s:.2f} s the source's, {best.target_s:.2f} s the target's"
        )
    pairs = list(zip(theirs, ours, strict=True))
    streamed = median(peer.wall_s / (own.wall_s - start_s) for peer, own in pairs)
    in_all = median(peer.wall_s / own.wall_s for peer, own in pairs)
    of_best = min(one.wall_s for one in theirs) / (min(one.wall_s for one in ours) - start_s)
    print(
        f"  ratio {streamed:.2f} (goal 0.80), of the best rounds {of_best:.2f};"
        f" {in_all:.2f} with the {start_s:.2f} s that the program takes to start and end"
    )


if __name__ == "__main__":
    main()
