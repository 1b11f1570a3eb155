"""What the page asks for, as JSON: the status as ``pgrepl status --json`` has it, and its age."""

from __future__ import annotations

from typing import Any

from pgrepl import __version__
from pgrepl.monitor.snapshot import Snapshot
from pgrepl.monitor.watcher import Watcher
from pgrepl.status.document import as_json, slot_as_json

__all__ = ["snapshot_document"]


def snapshot_document(snapshot: Snapshot, watcher: Watcher) -> dict[str, Any]:
    """Return all that is known."""
    trouble = snapshot.trouble
    return {
        "version": __version__,
        "interval_seconds": watcher.interval_s,
        "refresh_seconds": round(snapshot.seconds, 3),
        "trouble": None
        if trouble is None
        else {
            "message": trouble.message,
            "hint": trouble.hint,
            "since": trouble.since,
        },
        "status": None if snapshot.status is None else as_json(snapshot.status),
        "last_seen": {
            name: {"at": at, "slot": slot_as_json(facts)}
            for name, (at, facts) in snapshot.last_seen.items()
        },
    }
