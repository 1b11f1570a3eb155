"""Changes of a table as whoever applies them sees them, to compare two ways of reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.replayer.shard.fold import KeyedNet, net_of


def describe(changes: Any, read: Callable[[Any, Any], object] = lambda _layout, change: change):
    """Return what is net of changes: those that are outdated do not matter."""
    if changes.problem is not None:
        return changes.count, str(changes.problem)
    found = net_of(changes.shape, changes)
    if not isinstance(found, KeyedNet):
        return changes.count, found.columns, found.counts
    rows = []
    for key, state in found.rows.items():
        states = (*state.older, (state.layout, state.change))
        rows.append((key, state.old_key, [(own.columns, read(own, one)) for own, one in states]))
    return changes.count, found.key, sorted(rows, key=repr), sorted(found.removed)
