"""What source and target say, as they say it; ``status.problems.judge`` makes sense of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pgrepl.catalog.slots import Slot
from pgrepl.catalog.unreadable import Unreadable
from pgrepl.lsn import Lsn
from pgrepl.store.monitoring.counters import BatchCounter
from pgrepl.store.monitoring.overview import (
    FailureOverview,
    ShardOverview,
    SourceOverview,
    TableOverview,
)
from pgrepl.store.pauses import Pause
from pgrepl.store.spool.consumers import ConsumerOverview
from pgrepl.store.tables.copy_work import TableProgress

__all__ = ["SourceFacts", "TargetFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """A row of ``sql/source.sql``, and its slot; what is the slot's is None when there is none."""

    is_standby: bool
    #: None on a standby, as is the timeline.
    lsn: Lsn | None
    clock_at: datetime
    system_identifier: int
    timeline: int | None
    plugin: str | None = None
    slot_dbname: str | None = None
    is_active: bool = False
    wal_status: str | None = None
    #: Why it is lost, if it is.
    loss: str = ""
    #: What can be written before the slot is lost; None without a limit.
    safe_bytes: int | None = None
    restart_lsn: Lsn | None = None
    confirmed_lsn: Lsn | None = None
    #: Of the walsender; None when no receiver is connected.
    sent_lsn: Lsn | None = None
    write_lsn: Lsn | None = None
    receiver_since: datetime | None = None
    #: ``max_slot_wal_keep_size``; None: no limit.
    keep_bytes: int | None = None
    #: WAL that the server wrote per second since its statistics were last reset.
    average_wal_bytes_per_s: float | None = None
    #: Replicated tables that the role may not read.
    unreadable: Sequence[Unreadable] = ()
    #: Replicated tables some of whose changes pgoutput does not send, and could.
    unpublished: Sequence[str] = ()
    #: It is topics or files: positions count records, and there is no slot.
    is_stream: bool = False

    def with_slot(self, slot: Slot) -> SourceFacts:
        """Return the same with the state of its slot."""
        return replace(
            self,
            plugin=slot.plugin,
            slot_dbname=slot.dbname,
            is_active=slot.is_active,
            wal_status="lost" if slot.is_lost else slot.wal_status,
            loss=slot.loss,
            safe_bytes=slot.safe_bytes,
            restart_lsn=slot.restart_lsn,
            confirmed_lsn=slot.confirmed_flush_lsn,
        )

    def seconds_to_loss(self, wal_bytes_per_s: float | None) -> float | None:
        """Return how long a slot that nobody reads lasts when WAL is written at this rate.

        None: for ever as far as the server says, or it is unknown; infinity: nothing is written.
        """
        if self.plugin is None:
            return None
        if self.wal_status == "lost":
            return 0.0
        if self.safe_bytes is None or wal_bytes_per_s is None:
            return None
        return max(self.safe_bytes, 0) / wal_bytes_per_s if wal_bytes_per_s > 0 else math.inf

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
    #: Batches that replay applied, counted since the copy.
    batches: Sequence[BatchCounter] = ()
    #: Tables of a copy that is under way; none when there is none.
    copies: Sequence[TableProgress] = ()
    #: Whether a receiver of the source is connected. One that pulls from the slot holds it only
    #: while a call lasts, so that the source does not tell.
    is_receiving: bool = False
    #: Since when replay leaves it alone because a person said so; None: it does not.
    pause: Pause | None = None
    #: Records of topics or files that could not be read.
    parked_record_count: int = 0
    #: Who reads the spool besides replay.
    consumers: Sequence[ConsumerOverview] = ()
