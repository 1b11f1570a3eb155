"""What sources cost by their number: at rest, for one change of all, and under a steady rate.

    PYTHONPATH=. python bench/bench_many_sources.py [--sources 1 5 20] [--rate 5] [--seconds 20]

One database is read through a slot for each source, so that one transaction is a change of all of
them; each has a receiver of its own, and one replay applies all. CPU seconds per second are those
of the source's server, of all receivers, of replay with its JVM and workers, and of the target.
Delays are from the commit until the last source shows it. In the end a line through the least and
the most says what each further source costs, and what 200 would.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.measuring.cpu import cpu_of, cpu_seconds
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.program import COMMAND, run_pgrepl

#: Rows of each transaction.
ROWS = 4
#: For how many sources it is calculated in the end.
MANY = 200
PARTS = ("source", "receive", "replay", "target")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a number of sources costs."""

    count: int
    resting: Mapping[str, float]
    busy: Mapping[str, float]
    #: Seconds until a change is seen in all of them: alone, and under the steady rate.
    alone: Sequence[float]
    delays: Sequence[float]
    #: Transactions a second that there were in truth, of each source.
    rate: float


class Rig:
    """A source and a target, and services for as many sources as are measured."""

    def __init__(self, stack: ExitStack, most: int, shards: int) -> None:
        """Start both servers, with room for all sources."""
        room = {"max_replication_slots": str(most + 10), "max_connections": str(4 * most + 100)}
        self.source_server = stack.enter_context(
            Cluster(settings={**LOGICAL_DECODING, **room, "max_wal_senders": str(most + 10)})
        )
        self.target_server = stack.enter_context(Cluster(settings=room))
        self.source = Database(self.source_server, "shop")
        self.target = Database(self.target_server, "warehouse")
        for database in (self.source, self.target):
            database.cluster.create_database(database.name)
        self.source.execute("create table t (id bigint, n int, v text, primary key (id, n))")
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._config = self._folder / "pgrepl.toml"
        self._shards = shards
        self._log: IO[bytes] = stack.enter_context((self._folder / "log").open("ab"))
        self.number = 0
        #: Transactions commit in the order of their numbers.
        self._lock = threading.Lock()
        self.names: list[str] = []
        self.receivers: list[subprocess.Popen[bytes]] = []
        self.replay: subprocess.Popen[bytes] | None = None
        stack.callback(self._stop)

    def grow(self, count: int) -> None:
        """Copy as many sources as are missing, and start what they need."""
        new = [f"s{number}" for number in range(len(self.names), count)]
        self.names += new
        lines = [f"[target]\ndsn = {json.dumps(self.target.dsn())}"]
        lines.append(f'[spark]\nmaster = "local[2]"\n[replay]\nshards = {self._shards}')
        for name in self.names:
            dsn = json.dumps(self.source.dsn())
            own = f'dsn = {dsn}\nplugin = "pgoutput"\nschema = "{{source}}_{{schema}}"'
            lines.append(f"[sources.{name}]\n{own}")
        self._config.write_text("\n".join(lines), encoding="utf-8")
        for name in new:
            done = run_pgrepl("basebackup", name, "--config", self._config)
            if done.returncode:
                raise SystemExit(done.stderr)
            self.receivers.append(self._start("receive", name))
        if self.replay is None:
            # It takes up sources that come into the file.
            self.replay = self._start("replay")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [*COMMAND, *arguments, "--config", str(self._config)]
        return subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def _stop(self) -> None:
        services = [*self.receivers, *([self.replay] if self.replay else [])]
        for service in services:
            service.terminate()
        for service in services:
            service.wait(120)

    def commit(self) -> int:
        """Have a small transaction, which is one of every source; return its number."""
        with self._lock:
            self.number += 1
            self.source.execute(
                f"insert into t select {self.number}, g, 'x' from generate_series(1, {ROWS}) g"
            )
            return self.number

    def wait(self, number: int) -> None:
        """Return when the last source shows a transaction."""
        seen = " union all ".join(
            f"select max(id) as id from {name}_public.t" for name in self.names
        )
        while (self.target.value(f"select min(coalesce(id, 0)) from ({seen}) s") or 0) < number:
            time.sleep(0.02)

    def cpu(self) -> Mapping[str, float]:
        """Return the CPU seconds of each part so far."""
        return {
            "source": cpu_seconds(self.source_server),
            "receive": sum(cpu_of(receiver.pid) for receiver in self.receivers),
            "replay": cpu_of(self.replay.pid) if self.replay else 0.0,
            "target": cpu_seconds(self.target_server),
        }


def measure(rig: Rig, rate: float, seconds: float) -> Cost:
    """Return what the sources of the rig cost."""
    for _ in range(5):
        # Spark is up in the end, and has applied something.
        rig.wait(rig.commit())
        time.sleep(1)
    before = rig.cpu()
    time.sleep(seconds / 2)
    resting = _per_second(before, rig.cpu(), seconds / 2)
    alone = [_delay(rig) for _ in range(5)]
    is_over = threading.Event()
    # The sampled transactions are of the load too.
    writer = threading.Thread(target=_write, args=(rig, rate, is_over))
    writer.start()
    time.sleep(3)
    before, begin, first = rig.cpu(), time.monotonic(), rig.number
    delays = []
    while time.monotonic() < begin + seconds:
        delays.append(_delay(rig))
    lasted = time.monotonic() - begin
    busy, reached = _per_second(before, rig.cpu(), lasted), (rig.number - first) / lasted
    is_over.set()
    writer.join()
    rig.wait(rig.commit())
    return Cost(len(rig.names), resting, busy, alone, delays, reached)


def _write(rig: Rig, rate: float, is_over: threading.Event) -> None:
    while not is_over.wait(1 / rate):
        rig.commit()


def _delay(rig: Rig) -> float:
    number = rig.commit()
    begin = time.monotonic()
    rig.wait(number)
    return time.monotonic() - begin


def _per_second(
    before: Mapping[str, float], after: Mapping[str, float], seconds: float
) -> Mapping[str, float]:
    return {part: (after[part] - before[part]) / seconds for part in PARTS}


def _print(costs: Sequence[Cost], rate: float) -> None:
    heads = " | ".join(PARTS)
    print(f"\nAt rest, CPU s per s; one change of all, s\n\n| sources | {heads} | one change |")
    print("|---|---|---|---|---|---|")
    for cost in costs:
        cells = " | ".join(f"{cost.resting[part]:.3f}" for part in PARTS)
        print(f"| {cost.count} | {cells} | {statistics.median(cost.alone):.2f} |")
    print(f"\nAt {rate:g} transactions of {ROWS} rows a second and source, CPU s per s; delay, s\n")
    print(f"| sources | a second | {heads} | median | 95 % |\n|---|---|---|---|---|---|---|---|")
    for cost in costs:
        cells = " | ".join(f"{cost.busy[part]:.2f}" for part in PARTS)
        p95 = sorted(cost.delays)[int(len(cost.delays) * 0.95)]
        median = statistics.median(cost.delays)
        print(f"| {cost.count} | {cost.rate:.1f} | {cells} | {median:.2f} | {p95:.2f} |")
    least, most = costs[0], costs[-1]
    if least.count == most.count:
        return
    print(f"\nA line through {least.count} and {most.count} sources, CPU s per s\n")
    print(f"| | {heads} |\n|---|---|---|---|---|")
    for title, name in (("at rest", "resting"), ("at that rate", "busy")):
        low, high = getattr(least, name), getattr(most, name)
        slopes = {p: (high[p] - low[p]) / (most.count - least.count) for p in PARTS}
        cells = " | ".join(f"{slopes[part]:.4f}" for part in PARTS)
        print(f"| each further source, {title} | {cells} |")
        whole = {p: low[p] + slopes[p] * (MANY - least.count) for p in PARTS}
        cells = " | ".join(f"{whole[part]:.1f}" for part in PARTS)
        print(f"| {MANY} sources, {title} | {cells} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--rate", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--shards", type=int, default=4)
    given = parser.parse_args()
    costs = []
    with ExitStack() as stack:
        rig = Rig(stack, max(given.sources), given.shards)
        for count in sorted(given.sources):
            rig.grow(count)
            costs.append(measure(rig, given.rate, given.seconds))
            print(f"{count} measured", flush=True)
        _print(costs, given.rate)


if __name__ == "__main__":
    main()
