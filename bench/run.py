"""Measure pgrepl beside a native subscription, and write docs/benchmarks.md, its JSON and charts.

    PYTHONPATH=. python bench/run.py [--only tpcb,insert,hot,wide,many,latency,shards,ddl,…]
        [--resume] [--minutes 14] [--plugins wal2json,pgoutput] [--rounds 3]
        [--transactions 100000] [--no-alone] [--backlog stream] [--out docs]

What is not measured stays in the JSON as an earlier run left it, and each result is written as soon
as it is there: a run that is broken off, or has no time left, is finished by one with ``--resume``.
With ``--only ""`` nothing is measured, and the page is written again from the JSON.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.measuring.growth import measure_growth
from bench.measuring.latency import measure_latency
from bench.measuring.machine import processor
from bench.measuring.migration import measure_migrations
from bench.measuring.ratios import Plan, measure_ratios
from bench.measuring.rig import Rig
from bench.measuring.shards import measure_shards
from bench.measuring.workloads import WORKLOADS
from bench.reporting.pictures import find_chromium
from bench.reporting.report import write_report
from bench.reporting.results import (
    DDL,
    ITEMS,
    LATENCY,
    SHARDS,
    forget,
    is_complete,
    load_results,
    save_results,
)
from pgrepl.config.model import ReplayConfig, SparkConfig
from pgrepl.replayer.spark_job import DAEMON, ShardJobs
from pgrepl.spark.background import SessionInBackground
from pgrepl.spark.session import SessionStart
from pgrepl.throwaway import find_binaries
from tests.support.machine.quick_java import start_java_quickly
from tests.support.machine.versions import tested_versions


def main() -> None:
    """Measure what is asked for."""
    arguments = _parse()
    logging.getLogger("pgrepl").setLevel(logging.ERROR)
    results = load_results(arguments.out)
    # Known before anything is measured.
    find_chromium()
    if not arguments.only:
        write_report(arguments.out, results)
        return
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
            _measure(arguments, results)
    finally:
        start.end()
    write_report(arguments.out, results)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(ITEMS), help="what is measured, in this order")
    parser.add_argument("--resume", action="store_true", help="only what the JSON has not")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after these")
    parser.add_argument("--plugins", default="wal2json,pgoutput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, help="instead of 100,000")
    parser.add_argument("--no-alone", action="store_true", help="do not measure replay alone")
    parser.add_argument("--seconds", type=float, default=20, help="of each measure of latency")
    parser.add_argument("--backlog", choices=("stream", "pull"), help="how a backlog is read")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--most", type=float, default=1.0, help="of the biggest sizes of growth")
    parser.add_argument("--bindir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    return parser.parse_args()


def _measure(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    end = time.monotonic() + arguments.minutes * 60
    for name in filter(None, arguments.only.split(",")):
        if arguments.resume and is_complete(results, name, arguments.rounds):
            continue
        if time.monotonic() > end:
            print(f"{name}: no time left; go on with --resume", flush=True)
            continue
        print(name, flush=True)
        if not arguments.resume:
            forget(results, name)
        results["machine"] = _machine(arguments)
        results.setdefault("measured", {})[name] = _conditions(arguments)
        _run(name, arguments, results)


def _run(name: str, arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    replay = ReplayConfig(shards=arguments.shards)
    plugins = arguments.plugins.split(",")

    def save() -> None:
        save_results(arguments.out, results)

    if name == DDL:
        results[DDL] = []
        measure_migrations(plugins, results[DDL], save)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Rig(
            find_binaries(arguments.bindir), Path(folder), replay, plugins, arguments.backlog
        ) as rig,
    ):
        # The server's user reads pgbench's scripts there.
        Path(folder).chmod(0o755)
        if name in WORKLOADS:
            plan = Plan(arguments.rounds, arguments.transactions, not arguments.no_alone)
            found = results.setdefault("ratios", {}).setdefault(name, {})
            measure_ratios(rig, WORKLOADS[name], plan, found, save)
        elif name == LATENCY:
            results[LATENCY] = []
            measure_latency(rig, arguments.seconds, results[LATENCY], save)
        elif name == SHARDS:
            results[SHARDS] = []
            measure_shards(rig, arguments.rounds, results[SHARDS], save)
        else:
            points: list[dict[str, Any]] = []
            results.setdefault("growth", {})[name] = points
            measure_growth(rig, name, arguments.most, points, save)


def _conditions(arguments: argparse.Namespace) -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {processor()}, load {os.getloadavg()[0]:.1f} before,"
        f" {arguments.shards} shards" + (f", {arguments.backlog}" if arguments.backlog else "")
    )


def _machine(arguments: argparse.Namespace) -> Mapping[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processors": f"{os.cpu_count()} of {processor()}",
        "memory": f"{memory:.0f} GiB",
        "versions": tested_versions(find_binaries(arguments.bindir)),
    }


if __name__ == "__main__":
    main()
