"""What was measured, kept as JSON, so that runs add to one another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.measuring.growth import AXES
from bench.measuring.latency import RATES
from bench.measuring.shards import COUNTS
from bench.measuring.workloads import WORKLOADS

__all__ = [
    "DDL",
    "ITEMS",
    "LATENCY",
    "SHARDS",
    "forget",
    "is_complete",
    "load_results",
    "save_results",
]

LATENCY = "latency"
SHARDS = "shards"
DDL = "ddl"
#: Everything that can be measured, what says most first.
ITEMS = (*WORKLOADS, LATENCY, SHARDS, DDL, *AXES)

_FILE = "benchmarks.json"


def load_results(folder: Path) -> dict[str, Any]:
    """Return what earlier runs have measured."""
    kept = folder / _FILE
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}


def save_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Keep what was measured; a run that is broken off leaves a whole file."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{_FILE}.unfinished"
    unfinished.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    unfinished.rename(folder / _FILE)


def forget(results: dict[str, Any], name: str) -> None:
    """Remove what was measured of an item."""
    results.get("ratios", {}).pop(name, None)
    results.get("growth", {}).pop(name, None)
    results.pop(name, None)


def is_complete(results: Mapping[str, Any], name: str, rounds: int) -> bool:
    """Whether all of an item was measured."""
    if name in WORKLOADS:
        return len(results.get("ratios", {}).get(name, {}).get("together", ())) >= rounds
    if name == LATENCY:
        rates = [found["rate"] for found in results.get(LATENCY, ())]
        return {rates.count(rate) > 1 for rate in RATES} == {True}
    if name == SHARDS:
        return len(results.get(SHARDS, ())) >= rounds * len(COUNTS)
    if name == DDL:
        return len(results.get(DDL, ())) > 1
    return len(results.get("growth", {}).get(name, ())) == len(AXES[name])
