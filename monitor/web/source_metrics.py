"""What is measured of each source, one declaration for each metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, get_args

from pgrepl.status import SourceStatus
from pgrepl.status.facts import SourceFacts, TargetFacts
from pgrepl.status.problems.judge import State
from pgrepl.store.parked import ParkingKind
from pgrepl.store.spool.consumers import ConsumerOverview

__all__ = ["COUNTERS", "GAUGES", "Measure"]

#: Labels besides the source, and a value; None: there is none now.
_Sample: TypeAlias = tuple[tuple[str, ...], float | None]
_Read: TypeAlias = Callable[[SourceStatus], Iterable[_Sample]]

_WAL_STATUSES = ("reserved", "extended", "unreserved", "lost")


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric: its name, what it means, and how it is read."""

    name: str
    meaning: str
    read: _Read
    #: Besides ``source``.
    labels: tuple[str, ...] = ()


def _of_source(read: Callable[[SourceFacts], float | None]) -> _Read:
    """Read a value of the source, while it answers."""
    return lambda status: [((), None if status.source is None else read(status.source))]


def _of_slot(read: Callable[[SourceFacts], float | None]) -> _Read:
    return _of_source(lambda source: None if source.plugin is None else read(source))


def _of_target(read: Callable[[TargetFacts], float | None]) -> _Read:
    """Read a value that the target knows."""
    return lambda status: [((), None if status.target is None else read(status.target))]


def _states(status: SourceStatus) -> Iterator[_Sample]:
    for state in get_args(State):
        yield (state,), state == status.state


def _wal_statuses(status: SourceStatus) -> Iterator[_Sample]:
    if status.source is not None and status.source.plugin is not None:
        for word in _WAL_STATUSES:
            yield (word,), word == status.source.wal_status


def _lags(*, in_bytes: bool) -> _Read:
    def read(status: SourceStatus) -> Iterator[_Sample]:
        if status.positions is not None:
            for name in ("received", "flushed", "applied"):
                step = getattr(status.positions, name)
                yield (name,), step.lag_bytes if in_bytes else step.lag_s

    return read


def _shards(status: SourceStatus) -> Iterator[_Sample]:
    if status.target is not None:
        last_seq = status.target.row.last_seq or 0
        for shard in status.target.shards:
            yield (str(shard.shard),), max(last_seq - shard.applied_seq, 0)


def _tables(status: SourceStatus) -> Iterator[_Sample]:
    if status.target is not None:
        yield ("ready",), status.target.row.ready_count
        for state in ("pending", "copying"):
            yield (state,), sum(table.state == state for table in status.target.tables)


def _problems(status: SourceStatus) -> Iterator[_Sample]:
    for kind in sorted({problem.kind for problem in status.problems}):
        yield (kind,), sum(problem.kind == kind for problem in status.problems)


def _received(total: str, serial: str) -> _Read:
    def read(status: SourceStatus) -> Iterator[_Sample]:
        if status.target is not None:
            row = status.target.row
            yield ("parallel",), getattr(row, total) - getattr(row, serial)
            yield ("serial",), getattr(row, serial)

    return read


def _applied(status: SourceStatus) -> Iterator[_Sample]:
    for counter in status.target.batches if status.target is not None else ():
        yield (counter.kind,), counter.change_count


def _conflicts(status: SourceStatus) -> Iterator[_Sample]:
    if status.target is not None:
        yield ("missing",), sum(table.missing_count for table in status.target.tables)
        yield ("extra",), sum(table.extra_count for table in status.target.tables)


def _receiver(status: SourceStatus) -> Iterator[_Sample]:
    is_active = status.source is not None and status.source.is_active
    if status.target is not None:
        yield (), is_active or status.target.is_receiving


def _consumers(read: Callable[[ConsumerOverview, datetime], float | None]) -> _Read:
    """Read a value of each consumer of the spool."""

    def read_all(status: SourceStatus) -> Iterator[_Sample]:
        if status.target is not None:
            for consumer in status.target.consumers:
                yield (consumer.name,), read(consumer, status.target.clock_at)

    return read_all


def _oldest(target: TargetFacts) -> float | None:
    at = target.row.oldest_commit_at
    return None if at is None else at.timestamp()


def _parked(target: TargetFacts, *kinds: ParkingKind) -> int:
    return sum(table.parked_kind in kinds for table in target.tables)


def _needing_resync(target: TargetFacts) -> int:
    return sum(table.needs_resync for table in target.tables)


GAUGES = (
    Measure(
        "pgrepl_source_up",
        "Whether the source answered the last look.",
        lambda status: [((), status.source is not None)],
    ),
    Measure("pgrepl_source_state", "1 for the state that the source is in.", _states, ("state",)),
    Measure(
        "pgrepl_source_lag_bytes",
        "WAL between the source and each step: received, flushed (spooled), applied.",
        _lags(in_bytes=True),
        ("step",),
    ),
    Measure(
        "pgrepl_source_lag_seconds",
        "How long each step lags the source at most: received, flushed (spooled), applied.",
        _lags(in_bytes=False),
        ("step",),
    ),
    Measure(
        "pgrepl_source_wal_bytes_per_second",
        "WAL that the source's server writes: over the last five minutes, or else on average.",
        lambda status: [((), None if status.source is None else status.wal_bytes_per_s)],
    ),
    Measure("pgrepl_receiver_up", "Whether a receiver of the source is connected.", _receiver),
    Measure(
        "pgrepl_slot_active",
        "Whether a session reads from the slot; a receiver that pulls does so only now and then.",
        _of_slot(lambda source: source.is_active),
    ),
    Measure(
        "pgrepl_slot_wal_status",
        "1 for the wal_status of the slot, as pg_replication_slots says it.",
        _wal_statuses,
        ("status",),
    ),
    Measure(
        "pgrepl_slot_retained_wal_bytes",
        "WAL that the source keeps for the slot.",
        _of_slot(lambda source: source.held_bytes),
    ),
    Measure(
        "pgrepl_slot_safe_wal_bytes",
        "WAL that can be written until the slot is lost; missing without max_slot_wal_keep_size.",
        _of_slot(lambda source: source.safe_bytes),
    ),
    Measure(
        "pgrepl_slot_loss_seconds",
        "How long the receiver may be away until the slot is lost, at the present rate of WAL;"
        " missing without max_slot_wal_keep_size.",
        lambda status: [((), status.seconds_to_loss)],
    ),
    Measure(
        "pgrepl_spool_bytes",
        "What is received and not yet applied, as it is stored.",
        _of_target(lambda target: target.row.byte_count),
    ),
    Measure(
        "pgrepl_spool_segments",
        "Segments in the spool.",
        _of_target(lambda target: target.row.segment_count),
    ),
    Measure(
        "pgrepl_spool_changes",
        "Changes in the spool.",
        _of_target(lambda target: target.row.change_count),
    ),
    Measure(
        "pgrepl_spool_oldest_commit_timestamp_seconds",
        "When the oldest transaction in the spool was committed on the source.",
        _of_target(_oldest),
    ),
    Measure(
        "pgrepl_shard_lag_segments",
        "Segments that a shard has not applied.",
        _shards,
        ("shard",),
    ),
    Measure(
        "pgrepl_consumer_lag_segments",
        "Segments of the spool that a consumer (an export, a stream of Spark) has not passed.",
        _consumers(lambda consumer, _: consumer.segment_count),
        ("consumer",),
    ),
    Measure(
        "pgrepl_consumer_lag_bytes",
        "WAL of the source between what was received and the position of a consumer.",
        _consumers(lambda consumer, _: consumer.lag_bytes),
        ("consumer",),
    ),
    Measure(
        "pgrepl_consumer_spool_bytes",
        "What of the spool a consumer has not passed, as it is stored.",
        _consumers(lambda consumer, _: consumer.byte_count),
        ("consumer",),
    ),
    Measure(
        "pgrepl_consumer_expiry_seconds",
        "After how long a consumer is let go if it does not move; missing when it has read all.",
        _consumers(lambda consumer, now: consumer.seconds_left(now)),
        ("consumer",),
    ),
    Measure(
        "pgrepl_consumer_lost",
        "Whether a consumer was let go: the spool is not kept for it any longer.",
        _consumers(lambda consumer, _: consumer.lost_at is not None),
        ("consumer",),
    ),
    Measure("pgrepl_tables", "Tables by the state of their copy.", _tables, ("state",)),
    Measure(
        "pgrepl_copy_size_bytes",
        "What the copy under way has to read on the source; 0 when there is none.",
        _of_target(lambda target: sum(table.size_bytes for table in target.copies)),
    ),
    Measure(
        "pgrepl_copy_done_bytes",
        "What it has read of that.",
        _of_target(lambda target: sum(table.done_bytes for table in target.copies)),
    ),
    Measure(
        "pgrepl_copy_rows",
        "Rows that it has written.",
        _of_target(lambda target: sum(table.row_count for table in target.copies)),
    ),
    Measure(
        "pgrepl_parked_tables",
        "Tables whose changes wait, not by a pause and not for a lock.",
        _of_target(lambda target: _parked(target, "failed", "ddl", "resync")),
    ),
    Measure(
        "pgrepl_paused_tables",
        "Tables that a person paused.",
        _of_target(lambda target: _parked(target, "paused")),
    ),
    Measure(
        "pgrepl_locked_tables",
        "Tables that wait for a lock of another session of the target.",
        _of_target(lambda target: _parked(target, "locked")),
    ),
    Measure(
        "pgrepl_source_paused",
        "Whether a person paused the source.",
        _of_target(lambda target: target.pause is not None),
    ),
    Measure(
        "pgrepl_parked_changes",
        "Changes that wait with parked, paused and locked tables.",
        _of_target(lambda target: sum(table.parked_changes for table in target.tables)),
    ),
    Measure(
        "pgrepl_resync_tables",
        "Tables that have to be copied again, by replay or by a person.",
        _of_target(_needing_resync),
    ),
    Measure(
        "pgrepl_pending_ddl",
        "Captured DDL statements that wait for a person.",
        _of_target(lambda target: target.pending_ddl_count),
    ),
    Measure(
        "pgrepl_problems",
        "What pgrepl status calls a problem, by its kind.",
        _problems,
        ("kind",),
    ),
)

COUNTERS = (
    Measure(
        "pgrepl_transactions_received",
        "Transactions received since the copy; a serial one has DDL or TRUNCATE.",
        _received("transaction_count", "serial_transaction_count"),
        ("kind",),
    ),
    Measure(
        "pgrepl_changes_received",
        "Changes received since the copy.",
        _received("received_change_count", "serial_change_count"),
        ("kind",),
    ),
    Measure("pgrepl_changes_applied", "Changes applied since the copy.", _applied, ("kind",)),
    Measure(
        "pgrepl_conflicting_rows",
        "Rows on the target that were not as the changes expect: missing, or too many.",
        _conflicts,
        ("kind",),
    ),
)
