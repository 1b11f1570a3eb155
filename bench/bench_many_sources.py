"""How long a round of replay takes with many sources, idle and busy.

    PYTHONPATH=. python bench/bench_many_sources.py [--sources 1 10 50] [--rounds 5]

One database is read through a slot for each source, so that one transaction is a change of all of
them. Idle: only one source has a change; timed is from its commit into the spool until it is
applied. Busy: replay is held by SIGSTOP until all sources have one; timed is from SIGCONT until the
last is applied. CPU seconds are those of replay with its JVM and workers, and of the target.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.measuring.cpu import cpu_of, cpu_seconds
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.program import COMMAND, run_pgrepl

#: Segments that are received and not applied.
WAITING = """
select count(*) from replication.receive_progress r
 where r.last_seq > (select min(p.applied_seq) from replication.shard_progress p
                      where p.source_id = r.source_id)
    or not exists (select from replication.shard_progress p where p.source_id = r.source_id)
"""


class Rig:
    """A source and a target, and a configuration of as many sources as are measured."""

    def __init__(self, stack: ExitStack, most: int, shards: int) -> None:
        """Start both servers, with room for all sources."""
        room = {"max_replication_slots": str(most + 10), "max_connections": str(2 * most + 100)}
        self.source_server = stack.enter_context(
            Cluster(settings={**LOGICAL_DECODING, **room, "max_wal_senders": str(most + 10)})
        )
        self.target_server = stack.enter_context(Cluster(settings=room))
        self.source = Database(self.source_server, "shop")
        self.target = Database(self.target_server, "warehouse")
        for database in (self.source, self.target):
            database.cluster.create_database(database.name)
        self.source.execute("create table t (id bigserial primary key, v text)")
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.config = self.folder / "pgrepl.toml"
        self._shards = shards
        self.names: list[str] = []

    def grow(self, count: int) -> None:
        """Copy as many sources as are missing."""
        new = [f"s{number}" for number in range(len(self.names), count)]
        self.names += new
        lines = [f"[target]\ndsn = {json.dumps(self.target.dsn())}"]
        lines.append(f'[spark]\nmaster = "local[2]"\n[replay]\nshards = {self._shards}')
        for name in self.names:
            dsn = json.dumps(self.source.dsn())
            lines.append(f'[sources.{name}]\ndsn = {dsn}\nschema = "{{source}}_{{schema}}"')
        self.config.write_text("\n".join(lines), encoding="utf-8")
        for name in new:
            self.run("basebackup", name)

    def run(self, *arguments: str) -> None:
        """Run a command to its end."""
        done = run_pgrepl(*arguments, "--config", self.config)
        if done.returncode:
            raise SystemExit(done.stderr)

    def change(self, names: list[str]) -> None:
        """Have a small transaction, in the spool of some sources."""
        self.source.execute("insert into t (v) select 'x' from generate_series(1, 3)")
        for name in names:
            self.run("receive", name, "--once")

    def wait(self) -> None:
        """Return when all that is received is applied."""
        while self.target.value(WAITING):
            time.sleep(0.01)


def measure(rig: Rig, rounds: int) -> None:
    """Print what the sources of the rig cost."""
    with (rig.folder / "replay.log").open("ab") as sink:
        replay = subprocess.Popen(
            [*COMMAND, "replay", "--config", str(rig.config)], stdout=sink, stderr=sink
        )
    try:
        rig.change(rig.names)
        rig.wait()
        # Spark is up, and has applied something.
        for _ in range(3):
            rig.change(rig.names[:1])
            rig.wait()
        idle = []
        for _ in range(rounds):
            rig.change(rig.names[:1])
            begin = time.monotonic()
            rig.wait()
            idle.append(time.monotonic() - begin)
        resting = cpu_of(replay.pid)
        time.sleep(10)
        resting = (cpu_of(replay.pid) - resting) / 10
        rig.change(rig.names)
        rig.wait()
        busy, cpu, cpu_target = [], [], []
        for _ in range(rounds):
            replay.send_signal(signal.SIGSTOP)
            rig.change(rig.names)
            before = cpu_of(replay.pid), cpu_seconds(rig.target_server)
            begin = time.monotonic()
            replay.send_signal(signal.SIGCONT)
            rig.wait()
            busy.append(time.monotonic() - begin)
            cpu.append(cpu_of(replay.pid) - before[0])
            cpu_target.append(cpu_seconds(rig.target_server) - before[1])
    finally:
        replay.send_signal(signal.SIGCONT)
        replay.terminate()
        replay.wait(120)
    print(
        f"| {len(rig.names)} | {statistics.median(idle):.2f} | {resting:.3f} |"
        f" {statistics.median(busy):.2f} | {statistics.median(cpu):.2f} |"
        f" {statistics.median(cpu_target):.2f} |",
        flush=True,
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=4)
    given = parser.parse_args()
    print(
        "| sources | one change, s | at rest, CPU s/s | a round of all, s | CPU s | target CPU s |"
    )
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        rig = Rig(stack, max(given.sources), given.shards)
        for count in sorted(given.sources):
            rig.grow(count)
            measure(rig, given.rounds)


if __name__ == "__main__":
    main()
