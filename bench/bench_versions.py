"""CPU time of receive and replay under a steady load, by versions of pgrepl, in turns.

    PYTHONPATH=. python bench/bench_versions.py [NAME=PYTHON …] [--before 271b7fb]
        [--rates 50,500] [--seconds 30] [--rounds 3] [--out docs/benchmarks]

Two throwaway servers; each version has a slot and a database on the target of its own, copied by
its own basebackup, and follows the source as its programs do. Without versions an earlier commit is
checked out and set up beside this tree, for as long as it takes, and compared with it. Writes
docs/benchmarks/versions.md: CPU seconds per second, the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.measuring.cpu import cpu_of, cpu_seconds, find_below
from bench.measuring.machine import processor
from pgrepl.throwaway import Cluster
from tests.support.database import Database

_WARM_S = 12.0
#: The last one that read everything by streaming, through wal2json: pgoutput and pulling came after
#: it, as did batches four times a second.
_BEFORE = "271b7fb"

_HEAD = """# CPU time by version

Written by `bench/bench_versions.py`; do not edit it. CPU seconds per second while pgbench's TPC-B
runs at a steady rate, the median of {rounds} rounds of {seconds:g} s in turns: of the programs with
all their processes, and of the target's server. Measured: {measured}.

| transactions/s | version | in all | {who} |
| --- | --- | --- | {dashes} |
"""

Found = dict[tuple[str, str], list[dict[str, float]]]


def main() -> None:
    """Measure, print what each round took, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", help="NAME=PYTHON")
    parser.add_argument("--before", default=_BEFORE, help="a commit, where no version is named")
    parser.add_argument("--rates", default="50,500")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    given = parser.parse_args()
    measured = f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {processor()}"
    with tempfile.TemporaryDirectory() as folder:
        if given.versions:
            versions = dict(version.split("=", 1) for version in given.versions)
            found = compare(versions, given, Path(folder))
        else:
            with checked_out(given.before, Path(folder) / "before") as python:
                versions = {given.before: python, "now": sys.executable}
                found = compare(versions, given, Path(folder))
    head = _HEAD.format(
        rounds=given.rounds,
        seconds=given.seconds,
        measured=measured,
        who="target | receive | replay",
        dashes="--- | --- | ---",
    )
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "versions.md").write_text(head + render(found), encoding="utf-8")


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[str]:
    """Set up a commit of this repository in a folder, and return its Python."""
    subprocess.run(["git", "worktree", "add", "--detach", folder, commit], check=True)
    try:
        subprocess.run(["scripts/setup.sh"], cwd=folder, check=True)
        yield str(folder / ".venv/bin/python")
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", folder], check=True)


def compare(versions: Mapping[str, str], given: argparse.Namespace, folder: Path) -> Found:
    """Measure each version at each rate, in turns."""
    found: Found = {}
    with Cluster() as source, Cluster() as target:
        run_pgbench(source, "-q", "-i", "-s", "10").wait()
        # Older versions refuse a table without identity.
        Database(source, "postgres").execute("alter table pgbench_history replica identity full")
        configs = {
            name: prepare(source, target, folder, name, python) for name, python in versions.items()
        }
        for rate in given.rates.split(","):
            for number in range(given.rounds):
                for name in list(versions) if number % 2 == 0 else list(versions)[::-1]:
                    begun = [versions[name], "-m", "pgrepl.cli"]
                    with following(begun, configs[name]) as pids:
                        measured = measure(source, target, rate, given.seconds, pids)
                    found.setdefault((rate, name), []).append(measured)
                    print(f"  {rate}/s, {name}: {measured}", flush=True)
    return found


def render(found: Found) -> str:
    """Return the rows of the table."""
    lines = []
    for (rate, name), rounds in found.items():
        medians = {who: median(own[who] for own in rounds) for who in rounds[0]}
        values = [sum(medians.values()), *medians.values()]
        lines.append(f"| {rate} | {name} | {' | '.join(f'{value:.2f}' for value in values)} |\n")
    return "".join(lines)


def prepare(source: Cluster, target: Cluster, folder: Path, name: str, python: str) -> Path:
    """Let a version copy the source."""
    target.create_database(name)
    config = folder / f"{name}.toml"
    config.write_text(
        f"[target]\ndsn = {json.dumps(target.dsn(name))}\n"
        f'[sources.bench]\ndsn = {json.dumps(source.dsn())}\nslot = "pgrepl_{name}"\n',
        encoding="utf-8",
    )
    # What goes wrong in another version is to be seen.
    subprocess.run(
        [python, "-m", "pgrepl.cli", "basebackup", "bench", "--config", str(config)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return config


@contextmanager
def following(command: Sequence[str], config: Path) -> Iterator[dict[str, int]]:
    """Run the programs of a version."""
    begun = {
        words[0]: subprocess.Popen(
            [*command, *words, "--config", str(config)], stderr=subprocess.DEVNULL
        )
        for words in (("receive", "bench"), ("replay",))
    }
    try:
        yield {what: process.pid for what, process in begun.items()}
    finally:
        for process in begun.values():
            process.terminate()
        for process in begun.values():
            process.wait()


def measure(
    source: Cluster, target: Cluster, rate: str, seconds: float, pids: dict[str, int]
) -> dict[str, float]:
    """Return CPU seconds per second while transactions come at a rate."""
    load = run_pgbench(source, "-n", "-c", "4", "-R", rate, "-T", str(int(600 + seconds)))
    try:
        await_start(pids["replay"])
        before = used(target, pids)
        time.sleep(seconds)
        after = used(target, pids)
    finally:
        load.terminate()
        load.wait()
    return {who: round((after[who] - before[who]) / seconds, 3) for who in before}


def await_start(replay: int) -> None:
    """Wait until Spark has workers, which it starts for a job, and what is done once is over."""
    while not ((java := find_below(replay, "java")) and find_below(java, "python")):
        time.sleep(0.5)
    time.sleep(_WARM_S)


def used(target: Cluster, pids: dict[str, int]) -> dict[str, float]:
    """Return the CPU seconds so far."""
    return {"target": cpu_seconds(target)} | {what: cpu_of(pid) for what, pid in pids.items()}


def run_pgbench(source: Cluster, *arguments: str) -> subprocess.Popen[bytes]:
    """Start pgbench on the source."""
    program = source.binaries.program("pgbench")
    command = [str(program) if program.exists() else "pgbench", *arguments, source.dsn()]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
