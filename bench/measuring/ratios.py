"""Catch up with a backlog beside a native subscription: same load, same machine, same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bench.measuring.rig import NATIVE, Rig
from bench.measuring.workloads import Workload

__all__ = ["Plan", "measure_ratios"]

#: Enough for everything that is opened once: workers, and sessions for the slices of a table.
_WARM = 12_000


@dataclass(frozen=True)
class Plan:
    rounds: int
    #: None: as many as the workload has by itself.
    transactions: int | None
    #: Whether replay alone is measured too.
    alone: bool


def measure_ratios(
    rig: Rig, workload: Workload, plan: Plan, found: dict[str, Any], save: Callable[[], None]
) -> None:
    """Measure a workload, round by round; of each there are walls and CPU seconds of everyone.

    Rounds that an earlier run has measured stay.
    """
    name, count = workload.name, plan.transactions or workload.transactions
    rig.prepare(name, rig.make(workload))
    _catch_up(rig, workload, _WARM, 0)
    found.setdefault("title", workload.title)
    found["transactions"] = count
    for kind in ("together", "alone"):
        found.setdefault(kind, [])
    found.setdefault("receive_s", {plugin: [] for plugin in rig.plugins})
    found.setdefault("spool_bytes", {})
    for number in range(len(found["together"]), plan.rounds):
        found["together"].append(_catch_up(rig, workload, count, number))
        if plan.alone:
            found["alone"].append(_work_off(rig, workload, count, number, found))
        save()
        print(f"  {name}, round {number + 1} of {plan.rounds}: {_walls(found)}", flush=True)


def _catch_up(rig: Rig, workload: Workload, count: int, number: int) -> dict[str, Any]:
    """Load once, and let everyone catch up in turn; who is first changes."""
    name = workload.name
    end = rig.load(name, workload, count)
    runs: dict[str, Any] = {NATIVE: partial(rig.native, name)}
    runs |= {plugin: partial(rig.together, name, plugin, end) for plugin in rig.plugins}
    return _in_turn(runs, number)


def _work_off(
    rig: Rig, workload: Workload, count: int, number: int, found: dict[str, Any]
) -> dict[str, Any]:
    """Load once, receive it, and let replay work off the spool."""
    name = workload.name
    end = rig.load(name, workload, count)
    for plugin in rig.plugins:
        received = rig.receive(name, plugin)
        found["receive_s"][plugin].append(round(received.seconds, 2))
        found["spool_bytes"][plugin] = round(received.byte_count / count)
    runs: dict[str, Any] = {NATIVE: partial(rig.native, name)}
    runs |= {plugin: partial(rig.alone, name, plugin, end) for plugin in rig.plugins}
    return _in_turn(runs, number)


def _in_turn(runs: dict[str, Any], number: int) -> dict[str, Any]:
    order = list(runs)
    first = number % len(order)
    return {who: asdict(runs[who]()) for who in (*order[first:], *order[:first])}


def _walls(found: dict[str, Any]) -> str:
    last = {kind: found[kind][-1] for kind in ("together", "alone") if found[kind]}
    return "; ".join(
        f"{kind} " + ", ".join(f"{who} {run['wall_s']:.2f} s" for who, run in runs.items())
        for kind, runs in last.items()
    )
