"""Judge slots of a source that may be pgrepl's and that nobody reads: each keeps WAL for ever."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg.sql import SQL, Literal

from pgrepl.catalog.slots import Slot
from pgrepl.doctor.finding import Finding, Remedy, Status, listed

__all__ = ["check_orphaned_slots"]

_MB = 1024 * 1024
#: What ``pgrepl receive --change-plugin`` calls the slot that takes over.
_TAKES_OVER = "_plugin"


def check_orphaned_slots(slots: Sequence[Slot], configured: Collection[str]) -> Finding:
    """No slot of pgrepl's is there that no source of the configuration has."""
    known = {*configured, *(f"{slot}{_TAKES_OVER}" for slot in configured)}
    orphans = [slot for slot in slots if slot.name not in known]
    if not orphans:
        return Finding.ok("orphaned-slots", "there are none")
    shown = [f'"{slot.name}" ({(slot.held_bytes or 0) / _MB:.0f} MB of WAL)' for slot in orphans]
    statements = [
        SQL("SELECT pg_drop_replication_slot({})").format(Literal(slot.name)) for slot in orphans
    ]
    return Finding(
        "orphaned-slots",
        Status.WARNING,
        f"slots that no source of the configuration has, and that keep WAL: {listed(shown)}",
        Remedy.of(*statements, then="unless another configuration of pgrepl has them"),
        tuple(slot.name for slot in orphans),
    )
