"""The status for programs: names and meanings stay, new ones may come; see docs/status.md.

LSNs and times are as they are: whoever prints JSON gives all of them one form.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pgrepl.config.naming import shown_name
from pgrepl.status.facts import SourceFacts, TargetFacts
from pgrepl.status.lag import Positions, Step
from pgrepl.status.problems.judge import SourceStatus
from pgrepl.status.read import Status
from pgrepl.store.monitoring.overview import TableOverview
from pgrepl.store.pauses import Pause
from pgrepl.store.spool.consumers import ConsumerOverview

__all__ = ["as_json", "slot_as_json"]


def as_json(status: Status) -> dict[str, Any]:
    """Return the status as JSON can hold it, but for LSNs and times."""
    return {
        "at": status.at,
        "exit_code": status.exit_code,
        "sources": [_source(source) for source in status.sources],
    }


def _source(source: SourceStatus) -> dict[str, Any]:
    target = source.target
    return {
        "name": source.name,
        "state": source.state,
        "problems": [asdict(problem) for problem in source.problems],
        "positions": _positions(source.positions),
        "slot": slot_as_json(source.source, source.wal_bytes_per_s),
        "receiver": _receiver(source.source),
        **(_nothing() if target is None else _target(target)),
    }


def _positions(positions: Positions | None) -> dict[str, Any] | None:
    if positions is None:
        return None
    return {
        "source": positions.source,
        "received": _step(positions.received),
        "flushed": _step(positions.flushed),
        "applied": _step(positions.applied),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "lsn": step.lsn,
        "lag_bytes": step.lag_bytes,
        "lag_seconds": round(step.lag_s, 3),
    }


def slot_as_json(
    source: SourceFacts | None, wal_bytes_per_s: float | None = None
) -> dict[str, Any] | None:
    """Return what a source says of its slot; None when there is none."""
    if source is None or source.plugin is None:
        return None
    to_loss_s = source.seconds_to_loss(wal_bytes_per_s)
    return {
        "is_active": source.is_active,
        "wal_status": source.wal_status,
        "held_bytes": source.held_bytes,
        "safe_bytes": source.safe_bytes,
        "max_keep_bytes": source.keep_bytes,
        "wal_bytes_per_second": _rounded(wal_bytes_per_s),
        # JSON has no infinity.
        "seconds_to_loss": None if to_loss_s in (None, math.inf) else _rounded(to_loss_s),
        "restart_lsn": source.restart_lsn,
        "confirmed_lsn": source.confirmed_lsn,
    }


def _receiver(source: SourceFacts | None) -> dict[str, Any] | None:
    if source is None or source.receiver_since is None:
        return None
    return {
        "since": source.receiver_since,
        "sent_lsn": source.sent_lsn,
        "write_lsn": source.write_lsn,
    }


def _nothing() -> dict[str, Any]:
    return dict.fromkeys(
        (
            *("is_replaying", "paused", "published", "rate", "spool", "shards", "tables"),
            *("pending_ddl_count", "copies", "failures", "consumers"),
        )
    )


def _target(target: TargetFacts) -> dict[str, Any]:
    row = target.row
    return {
        "is_replaying": bool(target.sessions.get("replay")),
        "paused": _pause(target.pause),
        "published": None
        if row.published_at is None
        else {"at": row.published_at, "lsn": row.published_lsn},
        "rate": {"applied_bytes_per_second": row.applied_bytes_per_s},
        "spool": {
            "segment_count": row.segment_count,
            "change_count": row.change_count,
            "bytes": row.byte_count,
            "oldest_commit_at": row.oldest_commit_at,
        },
        "shards": [
            {
                "shard": shard.shard,
                "applied_lsn": shard.applied_lsn,
                "segments_behind": max((row.last_seq or 0) - shard.applied_seq, 0),
                "updated_at": shard.updated_at,
            }
            for shard in target.shards
        ],
        "tables": {
            "ready_count": row.ready_count,
            "not_well": [_table(table) for table in target.tables],
        },
        "pending_ddl_count": target.pending_ddl_count,
        "copies": [
            {
                "name": table.name,
                "is_ready": table.is_ready,
                "size_bytes": table.size_bytes,
                "done_bytes": table.done_bytes,
                "row_count": table.row_count,
            }
            for table in target.copies
        ],
        "failures": [asdict(failure) for failure in target.failures],
        "consumers": [_consumer(consumer, target.clock_at) for consumer in target.consumers],
    }


def _consumer(consumer: ConsumerOverview, now: datetime) -> dict[str, Any]:
    return {
        "name": consumer.name,
        "kind": consumer.kind,
        "destination": consumer.destination,
        "state": consumer.state,
        "lsn": consumer.lsn,
        "segments_behind": consumer.segment_count,
        "lag_bytes": consumer.lag_bytes,
        "spool_bytes": consumer.byte_count,
        "seconds_left": consumer.seconds_left(now),
        "is_in_danger": consumer.is_in_danger(now),
        "moved_at": consumer.moved_at,
        "keep_seconds": consumer.keep.total_seconds(),
        "lost_at": consumer.lost_at,
        "incomplete_tables": {shown_name(*name): reason for name, reason in consumer.gaps.items()},
    }


def _pause(pause: Pause | None) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {"at": pause.paused_at, "by": pause.paused_by, "reason": pause.reason}


def _resync(table: TableOverview) -> dict[str, Any] | None:
    if table.resync_state is None:
        return None
    return {
        "way": table.resync_way,
        "state": table.resync_state,
        "chunks": table.resync_chunks if table.resync_way == "chunked" else None,
        "chunks_estimated": table.resync_chunk_estimate,
        "wal_left": table.resync_wal_left,
        "rows": table.resync_rows,
        "rows_estimated": table.resync_row_estimate,
        "bytes": table.resync_bytes,
        "bytes_estimated": table.resync_estimate,
        "rows_per_second": _rounded(table.resync_rows_per_s),
        "bytes_per_second": _rounded(table.resync_bytes_per_s),
        "seconds": table.resync_seconds,
        "seconds_left": table.resync_seconds_left,
        "error": table.resync_error,
    }


def _table(table: TableOverview) -> dict[str, Any]:
    return {
        "name": table.name,
        "state": table.state,
        "copied_parts": table.done_count,
        "parts": table.part_count,
        "resync_reason": table.resync_reason,
        "resync_due": table.due_reason is not None,
        "resync_attempts": table.due_attempts,
        "resync_error": table.due_error,
        "resync": _resync(table),
        "is_paused": table.parked_kind == "paused",
        "parked_kind": table.parked_kind,
        "parked_reason": table.parked_reason,
        "parked_changes": table.parked_changes,
        "missing_rows": table.missing_count,
        "extra_rows": table.extra_count,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
