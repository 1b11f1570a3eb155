"""The page docs/benchmarks/kafka.md, made of what ``bench_kafka`` measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Measured", "write_report"]

_HEAD = """# Topics

Written by `bench/bench_kafka.py` from [kafka.json](kafka.json); do not edit it.

{count:,} JSON records with schemas in 4 partitions of one broker, 10,000 keys, events of Debezium
in transactions of 100; broker, target and programs on one machine. Measured: {about}. Each program
runs once to the end of the topic, and its start is part of what it took, which is most of what
replay and Spark take. *counts only* decodes nothing and keeps nothing; *Spark Structured Streaming*
is its Kafka source with `foreachBatch` and upserts of each batch, whose offsets are not in the
transaction of the rows. Medians of the rounds, of which there were {rounds}. With a load above the
number of CPUs the machine had other work: then compare CPU seconds, the wall says little.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program took for the records of one envelope."""

    program: str
    envelope: str
    record_count: int
    wall_s: float
    #: With all that the program started.
    cpu_s: float
    target_cpu_s: float


def write_report(folder: Path, about: str, found: Sequence[Measured]) -> None:
    """Write the page, and the figures beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"about": about, "measured": [asdict(own) for own in found]}
    (folder / "kafka.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "kafka.md").write_text(_render(about, found), encoding="utf-8")


def _render(about: str, found: Sequence[Measured]) -> str:
    groups: dict[tuple[str, str], list[Measured]] = {}
    for own in found:
        groups.setdefault((own.envelope, own.program), []).append(own)
    rounds = max(map(len, groups.values()), default=0)
    count = found[0].record_count if found else 0
    lines = [
        _HEAD.format(count=count, about=about, rounds=rounds),
        "| envelope | | records/s | wall s | CPU s | CPU s of the target |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (envelope, program), group in groups.items():
        wall, cpu, target = (
            statistics.median(values)
            for values in zip(*((m.wall_s, m.cpu_s, m.target_cpu_s) for m in group), strict=True)
        )
        lines.append(
            f"| {envelope} | {program} | {count / wall:,.0f} | {wall:.1f} | {cpu:.1f} |"
            f" {target:.1f} |"
        )
    return "\n".join(lines) + "\n"
