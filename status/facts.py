"""What source and target say, as they say it; ``pgrepl.status.judge`` makes sense of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pgrepl.catalog.unreadable import Unreadable
from pgrepl.lsn import Lsn
from pgrepl.store.overview import (
    FailureOverview,
    ShardOverview,
    SourceOverview,
    TableOverview,
)
from pgrepl.store.pauses import Pause

__all__ = ["SourceFacts", "TargetFacts"]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A row of ``sql/source.sql``; the slot's columns are None when there is no slot."""

    is_standby: bool
    #: None on a standby, as is the timeline.
    lsn: Lsn | None
    clock_at: datetime
    system_identifier: int
    timeline: int | None
    plugin: str | None
    slot_dbname: str | None
    is_active: bool
    wal_status: str | None
    #: What can be written before the slot is lost; None without a limit.
    safe_bytes: int | None
    restart_lsn: Lsn | None
    confirmed_lsn: Lsn | None
    #: Of the walsender; None when no receiver is connected.
    sent_lsn: Lsn | None
    write_lsn: Lsn | None
    receiver_since: datetime | None
    #: Replicated tables that the role may not read.
    unreadable: Sequence[Unreadable] = ()
    #: Replicated tables some of whose changes pgoutput does not send, and could.
    unpublished: Sequence[str] = ()
    #: It is topics or files: positions count records, and there is no slot.
    is_stream: bool = False

    @property
    def held_bytes(self) -> int | None:
        """WAL that the source keeps for the slot."""
        if self.lsn is None or self.restart_lsn is None:
            return None
        return max(self.lsn - self.restart_lsn, 0)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Everything the target knows about one source, as of one moment."""

    clock_at: datetime
    row: SourceOverview
    shards: Sequence[ShardOverview]
    tables: Sequence[TableOverview]
    failures: Sequence[FailureOverview]
    #: Captured DDL that waits for a person.
    pending_ddl_count: int
    #: How many sessions each stage of pgrepl has on the target now: stage to count.
    sessions: Mapping[str, int]
    #: Whether a receiver of the source is connected. One that pulls from the slot holds it only
    #: while a call lasts, so that the source does not tell.
    is_receiving: bool = False
    #: Since when replay leaves it alone because a person said so; None: it does not.
    pause: Pause | None = None
    #: Records of topics or files that could not be read.
    parked_record_count: int = 0
