"""How the time grows: with the backlog, with the tables, with the size of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.measuring.rig import Rig
from tests.support.database import Database

__all__ = ["AXES", "measure_growth"]

#: What grows: changes of a backlog, tables, changes of a transaction.
AXES = {
    "backlog": (10_000, 100_000, 1_000_000, 3_000_000),
    "tables": (10, 100, 1_000, 5_000),
    "transaction": (1, 10, 1_000, 100_000),
}

_LOG = "create table log (id bigint generated always as identity primary key, n int, note text)"
#: The number of changes where the backlog is not what grows.
_CHANGES = 100_000


def measure_growth(
    rig: Rig, axis: str, most: float, found: list[dict[str, Any]], save: Callable[[], None]
) -> None:
    """Measure receive and replay, one after the other; ``most`` times the sizes is the biggest."""
    for size in [size for size in AXES[axis] if size <= most * AXES[axis][-1]]:
        if axis == "tables":
            found.append(_grow_tables(rig, size))
        elif axis == "backlog":
            found.append(_grow(rig, axis, size, size, 10))
        else:
            found.append(_grow(rig, axis, size, _CHANGES, size))
        save()


def _grow(rig: Rig, axis: str, size: int, changes: int, together: int) -> dict[str, Any]:
    name = f"{axis}_{size}"
    rig.prepare(name, lambda source: source.execute(_LOG), native=False)
    rig.source(name).execute(
        f"do $$ begin for i in 1..{changes // together} loop insert into log (n, note)"
        f" select g, 'note ' || g from generate_series(1, {together}) g; commit;"
        " end loop; end $$"
    )
    return _measure(rig, name, size, changes)


def _grow_tables(rig: Rig, size: int) -> dict[str, Any]:
    name = f"tables_{size}"
    rig.prepare(name, partial(_make_tables, count=size), native=False)
    each = max(1, _CHANGES // 10 // size)
    rig.source(name).execute(
        f"do $$ begin for i in 1..{each} loop for t in 1..{size} loop"
        " execute format('update t_%s set n = n + 1', t); commit; end loop; end loop; end $$"
    )
    return _measure(rig, name, size, each * size)


def _make_tables(source: Database, count: int) -> None:
    source.execute(
        f"do $$ begin for t in 1..{count} loop"
        " execute format('create table t_%s (id int primary key, n int)', t);"
        " execute format('insert into t_%s values (1, 0)', t); commit; end loop; end $$"
    )


def _measure(rig: Rig, name: str, size: int, changes: int) -> dict[str, Any]:
    end = rig.mark(name)
    found: dict[str, Any] = {"size": size, "changes": changes}
    for plugin in rig.plugins:
        received = rig.receive(name, plugin)
        timing = rig.alone(name, plugin, end)
        found[plugin] = {
            "receive_s": round(received.seconds, 2),
            "replay_s": round(timing.wall_s, 2),
            "receiver_mib": received.mib,
            "worker_mib": rig.worker_mib(),
        }
    print(f"  {name}: {found}", flush=True)
    return found
