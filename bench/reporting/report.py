"""The results of a run, kept as JSON, as a page of the documentation with charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.measuring.rig import NATIVE
from bench.reporting.charts import bars, lines
from bench.reporting.pictures import draw_png

__all__ = ["write_report"]

#: Ratios to a native subscription that are aimed at: together with each plugin, replay alone.
GOALS = {
    "tpcb": {"pgoutput": 2.0, "wal2json": 1.3, "alone": 4.0},
    "insert": {"pgoutput": 1.5, "wal2json": 1.0, "alone": 3.0},
    "hot": {"pgoutput": 2.2, "wal2json": 1.2, "alone": 8.0},
    "wide": {"pgoutput": 1.5, "wal2json": 0.9, "alone": 2.0},
    "many": {"pgoutput": 1.5, "wal2json": 1.0, "alone": 2.5},
}

_METHOD = """\
# Benchmarks

Written by `make bench` (`bench/run.py`) from [benchmarks.json](benchmarks.json); do not edit it.

## Method

Three PostgreSQL servers on one machine, reached by Unix sockets: a source, a target, and one with a
native subscription to the same source. A round loads a backlog on the source once with pgbench;
then the native subscription and pgrepl with each output plugin catch up with it in turn, while
nothing else runs, in another order each round. **Together**: receive and replay, both started and
warm, begin at once; the time counts until the last transaction is published on the target.
**Alone**: the backlog waits in the spool and replay works it off. A ratio is the native
subscription's time by ours, in the same round; the tables show the median of the rounds. Above 1 we
are faster. A backlog is pulled, which is the default, unless `stream` stands beside a measurement.
"""


def write_report(
    folder: Path, results: Mapping[str, Any], draw: Callable[[str, Path], None] = draw_png
) -> None:
    """Write the page and its charts."""
    charts: dict[str, str] = {}
    parts = [_METHOD, _machine(results["machine"], results.get("measured", {}))]
    if "ratios" in results:
        parts += _ratios(results["ratios"], charts)
    if "latency" in results:
        parts.append(_latency(results["latency"]))
    if "shards" in results:
        parts.append(_shards(results["shards"]))
    if "ddl" in results:
        parts.append(_ddl(results["ddl"]))
    if "growth" in results:
        parts += _growth(results["growth"], charts)
    place = folder / "benchmarks"
    place.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.md").write_text("\n".join(parts), encoding="utf-8")
    for name, chart in charts.items():
        draw(chart, place / f"{name}.png")


def _machine(machine: Mapping[str, Any], measured: Mapping[str, str]) -> str:
    said = {**machine, **{f"measured, {name}": when for name, when in measured.items()}}
    return "## Machine\n\n" + "".join(f"- {key}: {value}\n" for key, value in said.items())


def _ratios(ratios: Mapping[str, Any], charts: dict[str, str]) -> list[str]:
    found: dict[str, dict[str, float]] = {}
    for name, workload in ratios.items():
        found[name] = {}
        for kind in ("together", "alone"):
            for who in [who for who in (workload[kind] or [{}])[0] if who != NATIVE]:
                runs = [run[NATIVE]["wall_s"] / run[who]["wall_s"] for run in workload[kind]]
                found[name][f"{who} {kind}"] = round(median(runs), 2)
    columns = list(dict.fromkeys(key for row in found.values() for key in row))
    rows = [
        [ratios[name]["title"], *(_with_goal(name, key, row.get(key)) for key in columns)]
        for name, row in found.items()
    ]
    charts["ratios"] = bars(
        "Times a native subscription, receive and replay together",
        {
            ratios[name]["title"]: {
                key.removesuffix(" together"): value
                for key, value in row.items()
                if key.endswith(" together")
            }
            for name, row in found.items()
        },
        1.0,
    )
    behind = [
        f"{ratios[name]['title']} ({key}: {value})"
        for name, row in found.items()
        for key, value in row.items()
        if value < 1
    ]
    return [
        "## Ratios to a native subscription\n",
        "In brackets the goal.\n",
        _table(["workload", *columns], rows),
        "![Ratios](benchmarks/ratios.png)\n",
        f"We lose at: {', '.join(behind) or 'none of these'}.\n",
        "### Seconds, CPU seconds and bytes\n",
        "Medians. Of a native subscription all CPU time is in the two servers.\n",
        _table(
            ["workload", "run", "wall s", "CPU s in all", "CPU s by process", "spool bytes/txn"],
            _times(ratios),
        ),
    ]


def _with_goal(name: str, key: str, value: float | None) -> str:
    if value is None:
        return ""
    plugin, kind = key.split()
    goals = GOALS.get(name, {})
    goal = goals.get(plugin if kind == "together" else "alone")
    is_asked = goal is not None and (kind == "together" or plugin == "pgoutput")
    return f"**{value:.2f}** ({goal})" if is_asked else f"**{value:.2f}**"


def _times(ratios: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for workload in ratios.values():
        for kind in ("together", "alone"):
            for who in (workload[kind] or [{}])[0]:
                runs = [run[who] for run in workload[kind]]
                cpu = {
                    process: median(run["cpu_s"][process] for run in runs)
                    for process in runs[0]["cpu_s"]
                }
                rows.append(
                    [
                        workload["title"],
                        f"{who}, {kind}",
                        f"{median(run['wall_s'] for run in runs):.2f}",
                        f"{sum(cpu.values()):.1f}",
                        ", ".join(f"{key} {value:.1f}" for key, value in cpu.items() if value),
                        str(workload["spool_bytes"].get(who, "")),
                    ]
                )
    return rows


def _latency(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            str(item["rate"]),
            item["who"],
            f"{item['p50_s']:.3f}",
            f"{item['p95_s']:.3f}",
            f"{sum(item['cpu_per_s'].values()):.2f}",
            ", ".join(f"{key} {value:.2f}" for key, value in item["cpu_per_s"].items() if value),
        ]
        for item in found
    ]
    header = ["transactions/s", "who", "p50 s", "p95 s", "CPU s per s", "by process"]
    return (
        "## From commit to visible\n\npgbench's TPC-B at a steady rate; ten probes a second, once"
        " everything committed before has arrived. The CPU time of the source is mostly that of"
        " pgbench's own transactions.\n\n" + _table(header, rows)
    )


def _shards(found: Sequence[Mapping[str, Any]]) -> str:
    """Return what a second shard brings: the longest way with one by that with two."""
    by_count = {
        count: [item for item in found if item["shards"] == count]
        for count in sorted({item["shards"] for item in found})
    }
    rows = [
        [
            str(count),
            f"{median(item['wall_s'] for item in items):.2f}",
            f"{median(item['worker_s'] for item in items):.2f}",
            ", ".join(
                f"{median(each):.2f}"
                for each in zip(*(item["backends_s"] for item in items), strict=False)
            ),
            f"{median(map(_longest_way, items)):.2f}",
        ]
        for count, items in by_count.items()
    ]
    ways = [map(_longest_way, items) for items in by_count.values()]
    gains = [one / two for one, two in zip(ways[0], ways[-1], strict=False) if two]
    header = ["shards", "wall s", "CPU s of the worker", "of each server process", "longest way"]
    return (
        "## One more shard for one table\n\n300,000 changes of one table wait in the spool."
        " Its rows are dealt by key to a session for each shard. Where cores are free the longest"
        " way counts: the worker, and then the server process that does most.\n\n"
        + _table(header, rows)
        + f"\nA second shard brings **{median(gains):.2f}** times (1.5), a median of rounds.\n"
    )


def _ddl(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            item["plugin"],
            f"{item['transactions']:,}",
            *(f"{item[key]:.1f}" for key in ("wall_ms", "replay_ms", "target_ms")),
        ]
        for item in found
    ]
    header = ["plugin", "transactions", "ms each", "CPU ms of replay", "CPU ms of the target"]
    return (
        "## A migration\n\nStatements of DDL, each a transaction of its own, replayed at a stretch;"
        " the goal is 30 ms each.\n\n" + _table(header, rows)
    )


def _longest_way(item: Mapping[str, Any]) -> float:
    return float(item["worker_s"]) + max(item["backends_s"], default=0.0)


def _growth(growth: Mapping[str, Any], charts: dict[str, str]) -> list[str]:
    titles = {
        "backlog": "changes in the backlog, ten to a transaction",
        "tables": "tables, 10,000 changes or one for each",
        "transaction": "changes in a transaction, 100,000 in all",
    }
    parts = ["## How the time grows\n"]
    for name, points in growth.items():
        plugins = [key for key in points[0] if key not in ("size", "changes")]
        series = {
            f"{plugin}, {what}": [(point["size"], point[plugin][f"{what}_s"]) for point in points]
            for plugin in plugins
            for what in ("receive", "replay")
        }
        charts[name] = lines(f"Seconds by {titles[name]}", titles[name], series)
        rows = [
            [
                f"{point['size']:,}",
                f"{point['changes']:,}",
                *(
                    f"{point[plugin]['receive_s']} + {point[plugin]['replay_s']}"
                    for plugin in plugins
                ),
                *(
                    f"{point[plugin]['receiver_mib']}, {point[plugin]['worker_mib']}"
                    for plugin in plugins
                ),
            ]
            for point in points
        ]
        header = [
            *(name, "changes"),
            *(f"{plugin}: receive + replay, s" for plugin in plugins),
            *(
                f"{plugin}: MiB that the receiver took, that a worker has had so far"
                for plugin in plugins
            ),
        ]
        parts += [_table(header, rows), f"![Growth by {name}](benchmarks/{name}.png)\n"]
    return parts


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines_ = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines_)
