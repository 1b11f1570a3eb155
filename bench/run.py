"""Measure pgrepl beside a native subscription, and write docs/benchmarks.md, its JSON and charts.

    PYTHONPATH=. python bench/run.py [--parts ratios,latency,growth] [--workloads tpcb,insert,…]
        [--plugins wal2json,pgoutput] [--rounds 3] [--scale 1.0] [--no-alone] [--out docs]

A part that is not measured stays in the JSON as an earlier run left it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.growth import measure_growth
from bench.latency import measure_latency
from bench.ratios import measure_ratios
from bench.report import write_report
from bench.rig import Rig
from bench.workloads import WORKLOADS
from pgrepl.config.model import ReplayConfig, SparkConfig
from pgrepl.replayer.spark_job import DAEMON, ShardJobs
from pgrepl.spark.background import SessionInBackground
from pgrepl.spark.session import SessionStart
from pgrepl.throwaway import find_binaries
from tests.support.quick_java import start_java_quickly
from tests.support.versions import tested_versions

RATES = (50, 500)


def main() -> None:
    """Measure what is asked for."""
    arguments = _parse()
    logging.getLogger("pgrepl").setLevel(logging.ERROR)
    # As on a machine where replay has run before.
    cache = Path("build/bench").absolute()
    cache.mkdir(parents=True, exist_ok=True)
    start_java_quickly(cache)
    # A task waits for the target for about half of its time: a slot for each shard, whatever cores.
    master = f"local[{arguments.shards}]"
    start = SessionStart(SparkConfig(master=master), "pgrepl-bench", daemon=DAEMON)
    start.run()
    try:
        # One warm session for all rounds.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SessionInBackground, "stop", lambda _: None)
            patch.setattr(ShardJobs, "stop", lambda _: None)
            _measure(arguments)
    finally:
        start.end()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default="ratios,latency,growth")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--plugins", default="wal2json,pgoutput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of transactions")
    parser.add_argument("--no-alone", action="store_true", help="do not measure replay alone")
    parser.add_argument("--seconds", type=float, default=20, help="of each measure of latency")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--most", type=float, default=1.0, help="of the biggest sizes of growth")
    parser.add_argument("--bindir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    return parser.parse_args()


def _measure(arguments: argparse.Namespace) -> None:
    kept = arguments.out / "benchmarks.json"
    results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for part in arguments.parts.split(","):
        print(part, flush=True)
        results[part] = _run(part, arguments)
        results["machine"] = _machine(arguments)
        write_report(arguments.out, results)


def _run(part: str, arguments: argparse.Namespace) -> Any:  # noqa: ANN401  what JSON can hold
    replay = ReplayConfig(shards=arguments.shards)
    plugins = arguments.plugins.split(",")
    with (
        tempfile.TemporaryDirectory() as folder,
        Rig(find_binaries(arguments.bindir), Path(folder), replay, plugins) as rig,
    ):
        # The server's user reads pgbench's scripts there.
        Path(folder).chmod(0o755)
        if part == "ratios":
            return measure_ratios(
                rig,
                arguments.workloads.split(","),
                rounds=arguments.rounds,
                scale=arguments.scale,
                alone=not arguments.no_alone,
            )
        if part == "latency":
            return measure_latency(rig, RATES, arguments.seconds)
        return measure_growth(rig, most=arguments.most)


def _machine(arguments: argparse.Namespace) -> Mapping[str, str]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processors": f"{os.cpu_count()} of {model}",
        "memory": f"{memory:.0f} GiB",
        "load average while it ran": f"{os.getloadavg()[2]:.1f} (15 minutes)",
        "versions": tested_versions(find_binaries(arguments.bindir)),
        "measured": f"{datetime.now(UTC):%Y-%m-%d}, {arguments.rounds} rounds,"
        f" {arguments.scale:g} times the transactions, {arguments.shards} shards",
    }


if __name__ == "__main__":
    main()
