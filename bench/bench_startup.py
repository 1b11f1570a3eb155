"""How long commands take that are to answer at once, beside a bare interpreter and beside pip.

    PYTHONPATH=. python bench/bench_startup.py [--rounds 15] [--few-rounds 3]

Nothing that is slow to import may be in the way of ``--help``, and nobody waits for Spark: replay
of a handful of changes, ``verify`` and ``doctor`` do without it on a local master.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.program import COMMAND, write_config

PROGRAMS = {
    "pgrepl --help": [str(Path(sys.executable).with_name("pgrepl")), "--help"],
    "pip --help": [sys.executable, "-m", "pip", "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}
_SOURCE = "shop"
_CHANGES = 9


def seconds(command: list[str]) -> float:
    """Run a command once."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--few-rounds", type=int, default=3, help="of commands with servers")
    given = parser.parse_args()
    # The programs take turns, so that whatever else the machine does is shared by all.
    rounds = [
        {name: seconds(command) for name, command in PROGRAMS.items()} for _ in range(given.rounds)
    ]
    median = {name: statistics.median(r[name] for r in rounds) for name in PROGRAMS}
    print(f"start-up, median of {given.rounds} runs")
    for name, value in median.items():
        ratio = value / median["python -c pass"]
        print(f"  {name:16} {value * 1000:6.0f} ms   {ratio:5.1f} times a bare interpreter")
    print(f"with servers, median of {given.few_rounds} runs")
    for name, taken in with_servers(given.few_rounds).items():
        print(f"  {name:40} {statistics.median(taken):5.2f} s", flush=True)


def with_servers(rounds: int) -> dict[str, list[float]]:
    """Return how long commands take that talk to a source and a target, round by round."""
    found: dict[str, list[float]] = {}
    with Cluster() as source, Cluster() as target, tempfile.TemporaryDirectory() as folder:
        for server in (source, target):
            server.create_database(_SOURCE)
        origin = Database(source, _SOURCE)
        origin.execute(
            "create table t (id int primary key, n int)",
            "insert into t select g, 0 from generate_series(1, 100) g",
        )
        config = write_config(
            Path(folder) / "pgrepl.toml", target.dsn(_SOURCE), {_SOURCE: origin.dsn()}
        )

        def run(*words: str) -> float:
            return seconds([*COMMAND, *words, "--config", str(config)])

        run("basebackup", _SOURCE)
        for _ in range(rounds):
            origin.execute(*(f"update t set n = n + 1 where id = {n}" for n in range(_CHANGES)))
            for words in (
                ("receive", _SOURCE, "--once"),
                ("replay", "--once"),
                ("verify", _SOURCE),
                ("doctor", _SOURCE),
            ):
                found.setdefault(f"pgrepl {' '.join(words)}", []).append(run(*words))
    return found


if __name__ == "__main__":
    main()
