"""What one more shard brings where nearly all changes are of one table.

Its net change is dealt by key to as many sessions as there are shards with nothing to do. Where
cores are free, what counts is the longest way through it: the CPU seconds of the worker that reads
the changes, and then of the server process that does most of them. Two cores are busy with two
shards already, so this is said of them besides the clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from bench.measuring.cpu import all_below, find_below, postmaster, ticks_of
from bench.measuring.rig import Rig
from tests.support.database import Database

__all__ = ["COUNTS", "measure_shards"]

COUNTS = (1, 2)
_ROWS = 300_000
_TOGETHER = 1_000


def measure_shards(
    rig: Rig, rounds: int, found: list[dict[str, Any]], save: Callable[[], None]
) -> None:
    """Work off the same backlog of one table with one shard and with two, in turns."""
    name = "one_table"
    rig.prepare(name, _make, native=False)
    for number in range(rounds + 1):
        for count in COUNTS if number % 2 else COUNTS[::-1]:
            measured = _measure(rig, name, count)
            # The first of each only warms up.
            if number > 0:
                found.append({"round": number, "shards": count, **measured})
                save()
                print(f"  {found[-1]}", flush=True)


def _make(source: Database) -> None:
    source.execute(
        "create table hot (id int primary key, n bigint not null, at timestamptz, note text)",
        f"insert into hot select g, 0, now(), 'note ' || g from generate_series(1, {_ROWS}) g",
    )


def _measure(rig: Rig, name: str, count: int) -> dict[str, Any]:
    rig.source(name).execute(
        f"do $$ begin for i in 0..{_ROWS // _TOGETHER - 1} loop"
        f" update hot set n = n + 1, at = now() where id > i * {_TOGETHER}"
        f" and id <= (i + 1) * {_TOGETHER}; commit; end loop; end $$"
    )
    end = rig.mark(name)
    plugin = rig.plugins[-1]
    rig.receive(name, plugin)
    before = _ticks(rig)
    timing = rig.alone(name, plugin, end, shards=count)
    after = _ticks(rig)
    used = {kind: _used(before[kind], after[kind]) for kind in after}
    return {
        "wall_s": round(timing.wall_s, 2),
        "worker_s": max(used["workers"].values(), default=0.0),
        "backends_s": sorted(used["target"].values(), reverse=True)[:count],
    }


def _ticks(rig: Rig) -> dict[str, dict[int, float]]:
    """Return the CPU seconds of each process of the target, and of each of Spark's workers."""
    jvm = find_below(os.getpid(), "java")
    workers = all_below(find_below(jvm, "python")) if jvm else set()
    return {
        "target": ticks_of(all_below(postmaster(rig.clusters["target"]))),
        "workers": ticks_of(workers),
    }


def _used(before: Mapping[int, float], after: Mapping[int, float]) -> dict[int, float]:
    return {pid: round(now - before.get(pid, 0.0), 2) for pid, now in after.items()}
