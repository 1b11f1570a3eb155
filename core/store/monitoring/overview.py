"""All that the target knows of sources, for who watches over them: read, never written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString, TypeVar

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.parked import ParkingKind
from pgrepl.store.resync.running_resyncs import ResyncState, Way
from pgrepl.store.sources import SourceRow
from pgrepl.store.tables.source_tables import TableState
from pgrepl.store.tables.unselected import UNSELECTED

__all__ = [
    "NEEDED_STEP",
    "NEEDED_VERSION",
    "FailureOverview",
    "ShardOverview",
    "SourceOverview",
    "TableOverview",
    "count_undecided_ddl",
    "read_failures",
    "read_shards",
    "read_sources",
    "read_troubled_tables",
]

T = TypeVar("T")

#: What is read here stands in the migrations up to this one.
NEEDED_VERSION = 19
#: And in this one.
NEEDED_STEP = "target_tables"


@dataclass(frozen=True, slots=True)
class SourceOverview(SourceRow):
    """A row of ``sql/source_overview.sql``: the source's, and what more is known of it."""

    created_at: datetime
    #: These are None before the first receiver.
    last_seq: int | None
    received_lsn: Lsn | None
    commit_at: datetime | None
    received_at: datetime | None
    #: Since the copy; of these, the ones with DDL or TRUNCATE.
    transaction_count: int
    received_change_count: int
    serial_transaction_count: int
    serial_change_count: int
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
class ShardOverview:
    """A row of ``replication.shard_progress``."""

    shard: int
    applied_seq: int
    applied_lsn: Lsn
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TableOverview:
    """A row of ``sql/table_overview.sql``."""

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
    parked_kind: ParkingKind | None
    parked_changes: int
    missing_count: int
    extra_count: int
    #: Of a table that is being copied while streaming goes on.
    resync_way: Way | None = None
    resync_state: ResyncState | None = None
    resync_error: str | None = None
    resync_rows: int | None = None
    resync_bytes: int | None = None
    #: How many bytes and rows it has on the source, and for how long it is copied.
    resync_estimate: int | None = None
    resync_row_estimate: int | None = None
    #: Of a table that is copied in chunks.
    resync_chunks: int | None = None
    resync_chunk_estimate: int | None = None
    #: Bytes of WAL that replay has to pass before it can end; None: none yet, or no more.
    resync_wal_left: int | None = None
    resync_seconds: float | None = None
    #: What was there when the present run began, or the last one, and for how long it is at work.
    resync_rows_before: int | None = None
    resync_bytes_before: int | None = None
    resync_run_seconds: float | None = None
    #: By which patterns select a partition; None: by its own name.
    root_schema: str | None = None
    root_name: str | None = None

    @property
    def needs_resync(self) -> bool:
        """Whether it has to be copied again; not one that the patterns do not take in."""
        return self.due_reason is not None or self.resync_reason not in (None, UNSELECTED)

    @property
    def resync_rows_per_s(self) -> float | None:
        """At which pace its rows are copied; None: nobody knows."""
        return self._pace(self.resync_rows, self.resync_rows_before)

    @property
    def resync_bytes_per_s(self) -> float | None:
        """At which pace its bytes are copied; None: nobody knows."""
        return self._pace(self.resync_bytes, self.resync_bytes_before)

    def _pace(self, now: int | None, before: int | None) -> float | None:
        if not now or not self.resync_run_seconds or self.resync_state != "copying":
            return None
        return (now - (before or 0)) / self.resync_run_seconds or None

    @property
    def resync_seconds_left(self) -> float | None:
        """How long the rest takes at the pace of what is copied; None: nobody knows."""
        for done, all_, pace in (
            # Rows, where they were counted: on the way they are longer or shorter than on the disk.
            (self.resync_rows, self.resync_row_estimate, self.resync_rows_per_s),
            (self.resync_bytes, self.resync_estimate, self.resync_bytes_per_s),
        ):
            if done and all_ and pace:
                return max(all_ - done, 0) / pace
        return None

    @property
    def name(self) -> str:
        """Schema and table as on the source."""
        return f"{self.schema_name}.{self.table_name}"


@dataclass(frozen=True, slots=True)
class FailureOverview:
    """A row of ``replication.failure``."""

    stage: str
    at: datetime
    message: str
    hint: str | None


def read_sources(
    connection: Connection, names: Sequence[str], *, besides: Sequence[str] | None
) -> Sequence[SourceOverview]:
    """Return the sources of these names, and all that are not among ``besides`` (None: no more)."""
    with connection.cursor(row_factory=class_row(SourceOverview)) as cursor:
        given = {
            "names": list(names),
            # Nothing differs from null.
            "configured": None if besides is None else list(besides),
        }
        return cursor.execute(
            load_query("pgrepl.store.monitoring", "source_overview"), given
        ).fetchall()


def read_troubled_tables(connection: Connection, ids: Sequence[int]) -> Sequence[TableOverview]:
    """Return the tables of sources that are not plainly well."""
    with connection.cursor(row_factory=class_row(TableOverview)) as cursor:
        query = load_query("pgrepl.store.monitoring", "table_overview")
        return cursor.execute(query, {"ids": list(ids)}).fetchall()


def read_shards(
    connection: Connection, ids: Sequence[int]
) -> Mapping[int, Sequence[ShardOverview]]:
    """Return the shards of each source, in order."""
    return _by_source(
        connection,
        "select source_id, shard, applied_seq, applied_lsn, updated_at"
        " from replication.shard_progress where source_id = any (%(ids)s)"
        " order by source_id, shard",
        ids,
        ShardOverview,
    )


def read_failures(
    connection: Connection, ids: Sequence[int]
) -> Mapping[int, Sequence[FailureOverview]]:
    """Return what last went wrong with each source, the newest first."""
    return _by_source(
        connection,
        "select source_id, stage, at, message, hint"
        " from replication.failure where source_id = any (%(ids)s) order by source_id, at desc",
        ids,
        FailureOverview,
    )


def count_undecided_ddl(connection: Connection, ids: Sequence[int]) -> Mapping[int, int]:
    """Return how many captured statements of each source wait for a person; none: no entry."""
    rows = connection.execute(
        "select source_id, count(*) from replication.ddl_pending"
        " where source_id = any (%(ids)s) and decision is null group by source_id",
        {"ids": list(ids)},
    )
    return dict(rows.fetchall())


def _by_source(
    connection: Connection, query: LiteralString, ids: Sequence[int], kind: type[T]
) -> Mapping[int, Sequence[T]]:
    """Make values of rows whose first column is the source."""
    found: dict[int, list[T]] = defaultdict(list)
    for source_id, *values in connection.execute(query, {"ids": list(ids)}):
        found[source_id].append(kind(*values))
    return found
