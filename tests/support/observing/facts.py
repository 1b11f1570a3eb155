"""What a source says of itself, made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pgrepl.lsn import Lsn
from pgrepl.status.facts import SourceFacts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FACTS = SourceFacts(
    is_standby=False,
    lsn=Lsn(0),
    clock_at=NOW,
    system_identifier=1,
    timeline=1,
    plugin="wal2json",
    slot_dbname="shop",
    is_active=True,
    wal_status="reserved",
    restart_lsn=Lsn(0),
    confirmed_lsn=Lsn(0),
)


def source_facts(**facts: Any) -> SourceFacts:
    """Return those of a sound source whose slot is read, but for what is given."""
    return replace(_FACTS, **facts)
