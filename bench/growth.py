"""How the time grows: with the backlog, with the tables, with the size of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.rig import Rig
from tests.support.database import Database

__all__ = ["BACKLOGS", "TABLES", "TRANSACTIONS", "measure_growth"]

BACKLOGS = (10_000, 100_000, 1_000_000, 3_000_000)
TABLES = (10, 100, 1_000, 5_000)
TRANSACTIONS = (1, 10, 1_000, 100_000)

_LOG = "create table log (id bigint generated always as identity primary key, n int, note text)"
#: The number of changes where the backlog is not what grows.
_CHANGES = 100_000


def measure_growth(rig: Rig, *, most: float) -> dict[str, list[dict[str, Any]]]:
    """Measure receive and replay, one after the other; ``most`` times the sizes is the biggest."""
    backlogs = [size for size in BACKLOGS if size <= most * BACKLOGS[-1]]
    tables = [size for size in TABLES if size <= most * TABLES[-1]]
    return {
        "backlog": _grow(rig, "backlog", backlogs, _make_log, lambda n: (n, 10)),
        "tables": _grow_tables(rig, tables),
        "transaction": _grow(rig, "transaction", TRANSACTIONS, _make_log, lambda n: (_CHANGES, n)),
    }


def _make_log(source: Database) -> None:
    source.execute(_LOG)


def _grow(
    rig: Rig,
    name: str,
    sizes: Sequence[int],
    make: Callable[[Database], None],
    shape: Callable[[int], tuple[int, int]],
) -> list[dict[str, Any]]:
    rig.prepare(name, make, native=False)
    found = []
    for size in sizes:
        changes, together = shape(size)
        rig.source(name).execute(
            f"do $$ begin for i in 1..{changes // together} loop insert into log (n, note)"
            f" select g, 'note ' || g from generate_series(1, {together}) g; commit;"
            " end loop; end $$"
        )
        found.append(_measure(rig, name, size, changes))
    return found


def _grow_tables(rig: Rig, sizes: Sequence[int]) -> list[dict[str, Any]]:
    found = []
    for size in sizes:
        name = f"tables_{size}"
        rig.prepare(name, partial(_make_tables, count=size), native=False)
        each = max(1, _CHANGES // 10 // size)
        rig.source(name).execute(
            f"do $$ begin for i in 1..{each} loop for t in 1..{size} loop"
            " execute format('update t_%s set n = n + 1', t); commit; end loop; end loop; end $$"
        )
        found.append(_measure(rig, name, size, each * size))
    return found


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
        receive_s, _ = rig.receive(name, plugin)
        timing = rig.alone(name, plugin, end)
        found[plugin] = {"receive_s": round(receive_s, 2), "replay_s": round(timing.wall_s, 2)}
    print(f"  {name}: {found}", flush=True)
    return found
