"""The invariants of the target's schema, in SQL."""

from __future__ import annotations

from pathlib import Path

from tests.support.database import Database

_QUERY = (Path(__file__).parents[1] / "sql" / "invariants.sql").read_text(encoding="utf-8")


def broken_invariants(target: Database) -> list[str]:
    """Return what does not hold, however the programs that wrote there ended."""
    return [f"{source}: {what}" for source, what in target.rows(_QUERY)]
