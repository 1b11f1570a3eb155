"""What source and target say, as they say it; ``pgrepl.status.judge`` makes sense of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pgrepl.catalog.unreadable import Unreadable
from pgrepl.lsn import Lsn
from pgrepl.store.sources import SourceState
from pgrepl.store.tables import TableState

__all__ = ["FailureFacts", "ShardFacts", "SourceFacts", "TableFacts", "TargetFacts", "TargetRow"]


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

    @property
    def held_bytes(self) -> int | None:
        """WAL that the source keeps for the slot."""
        if self.lsn is None or self.restart_lsn is None:
            return None
        return max(self.lsn - self.restart_lsn, 0)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A row of ``sql/target_sources.sql``."""

    source_id: int
    name: str
    slot: str
    dbname: str
    system_identifier: int
    timeline: int
    state: SourceState
    consistent_point: Lsn | None
    created_at: datetime
    #: These are None before the first receiver.
    last_seq: int | None
    received_lsn: Lsn | None
    commit_at: datetime | None
    received_at: datetime | None
    ends_in_changes: bool
    has_origin: bool
    #: None too when the role may not ask.
    origin_lsn: Lsn | None
    #: What every shard has applied; before the first one, the consistent point.
    applied_lsn: Lsn | None
    #: The first segment that some shard has not applied; None when all is applied.
    waiting_lsn: Lsn | None
    waiting_since: datetime | None
    segment_count: int
    change_count: int
    byte_count: int
    oldest_commit_at: datetime | None
    published_at: datetime | None
    published_lsn: Lsn | None
    #: WAL per second that the bindings of the last minute cover.
    applied_bytes_per_s: float | None
    ready_count: int


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """A row of ``replication.shard_progress``."""

    shard: int
    applied_seq: int
    applied_lsn: Lsn
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A row of ``sql/target_tables.sql``."""

    source_id: int
    schema_name: str
    table_name: str
    #: None for a table that only replay knows of.
    state: TableState | None
    resync_reason: str | None
    #: Why replay copies it again by itself, how often that failed, and how the last time.
    due_reason: str | None
    due_attempts: int
    due_error: str | None
    part_count: int
    done_count: int
    parked_at: datetime | None
    sqlstate: str | None
    parked_reason: str | None
    parked_changes: int
    missing_count: int
    extra_count: int

    @property
    def name(self) -> str:
        """Schema and table as on the source."""
        return f"{self.schema_name}.{self.table_name}"


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """A row of ``replication.failure``."""

    stage: str
    at: datetime
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Everything the target knows about one source, as of one moment."""

    clock_at: datetime
    row: TargetRow
    shards: Sequence[ShardFacts]
    tables: Sequence[TableFacts]
    failures: Sequence[FailureFacts]
    #: Captured DDL that waits for a person.
    pending_ddl_count: int
    #: How many sessions each stage of pgrepl has on the target now: stage to count.
    sessions: Mapping[str, int]
