"""One source in the hands of the replayer: what is next for it, and what happened to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import ReplayConfig
from pgrepl.errors import PgreplError, TargetLocked
from pgrepl.failpoint import reach
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.batches import (
    Batch,
    Limits,
    Segment,
    missing_segment,
    plan_batch,
    shard_buckets,
    slice_counts,
)
from pgrepl.replayer.pacing import bytes_to_hold
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.shard_result import Parking, ShardResult
from pgrepl.replayer.shard.task import ShardTask
from pgrepl.retry import Backoff
from pgrepl.store.progress.receive_progress import last_written
from pgrepl.store.progress.shard_progress import (
    ShardPosition,
    change_shard_count,
    read_positions,
)
from pgrepl.store.sources import SourceRow
from pgrepl.store.spool.spool_rows import read_segments

__all__ = ["SourceWork", "Work", "set_ends", "shard_tasks"]


@dataclass(frozen=True, slots=True)
class Work:
    """The next batch of a source, and where its shards stand."""

    source: SourceRow
    batch: Batch
    positions: Sequence[ShardPosition]
    #: Whether the spool has more for the next one.
    has_more: bool

    @property
    def is_even(self) -> bool:
        """Whether all shards stand where the batch begins, and nothing of them is ahead."""
        return all(
            p.applied_seq == self.batch.from_seq and p.slice_seq is None for p in self.positions
        )


@dataclass(slots=True)
class SourceWork:
    """A source, as long as the replayer runs."""

    source: SourceRow
    #: Up to where ``--once`` goes; None: on and on.
    end_seq: int | None = None
    until: Position | None = None
    change_count: int = 0
    batch_count: int = 0
    parked: list[Parking] = field(default_factory=list)
    error: PgreplError | None = None
    #: Whether a person paused it.
    is_paused: bool = False
    #: Whether it took so long that others do not wait for it any more.
    is_slow: bool = False
    #: How much its receiver is to bring, while it catches up, before the next batch begins.
    hold_bytes: int = 0
    #: Whether a lock of another session was in its way when it was tried last.
    is_locked: bool = False
    _next_try: float = 0.0
    _backoff: Backoff | None = None
    _reported_at: float = 0.0
    #: How many segments the last batch had, and how many the next one may have after a failure.
    _tried: int = 0
    _most: int | None = None
    #: Up to here serial segments are applied one by one: some of them together did not work.
    _alone_until: int = 0

    def is_waiting(self) -> bool:
        """Whether it failed, and it is too early to try again."""
        return time.monotonic() < self._next_try

    def seconds_to_wait(self) -> float:
        """Return how long that will be."""
        return max(0.0, self._next_try - time.monotonic())

    def fail(self, error: PgreplError, settings: ReplaySettings) -> None:
        """Leave the source alone for a while; the others go on."""
        self.error = error
        self.is_locked = isinstance(error, TargetLocked)
        # What was too much for the target at once, such as locks on thousands of tables, may not be
        # in pieces.
        self._most = max(1, self._tried // 2)
        if self._backoff is None:
            self._backoff = Backoff(settings.backoff_s, settings.backoff_limit_s)
        self._next_try = time.monotonic() + self._backoff.fail()

    def is_long(self, batch: Batch, settings: ReplaySettings) -> bool:
        """Whether nobody knows how long a batch takes, or it is long: others do not wait for it."""
        return (
            batch.kind == "serial" or batch.change_count > settings.shared_changes or self.is_slow
        )

    def take_apart(self, batch: Batch) -> None:
        """Apply the segments of a serial batch one by one: it failed, and one of them is why."""
        self._alone_until = batch.to_seq

    def go_on(self, batch: Batch, seconds: float, settings: ReplaySettings) -> None:
        """Count a batch that is applied."""
        self.is_slow = self.is_slow and seconds > settings.shared_s / 2
        self.error = None
        self.is_locked = False
        self._backoff = None
        self._most = None if self._most is None else self._most * 2
        self.change_count += batch.change_count
        self.batch_count += 1

    def learn(self, results: Iterable[ShardResult | PgreplError], settings: ReplaySettings) -> None:
        """Choose how much makes the next batch, by how few rows this one was about."""
        counts = [
            (count, result.left_counts[name])
            for result in results
            if isinstance(result, ShardResult)
            for name, count in result.change_counts.items()
            if name in result.left_counts
        ]
        held = max(self.hold_bytes, settings.hold_bytes)
        self.hold_bytes = bytes_to_hold(held, counts, settings)

    def is_report_due(self, interval_s: float) -> bool:
        """Whether it is time again to say how far it is; asked, it counts as said."""
        now = time.monotonic()
        is_due = not self._reported_at or now - self._reported_at >= interval_s
        if is_due:
            self._reported_at = now
        return is_due

    def take_parked(self) -> Sequence[Parking]:
        """Return the tables that were parked since it was asked last."""
        parked, self.parked = self.parked, []
        return parked

    def plan(
        self, connection: Connection, config: ReplayConfig, settings: ReplaySettings
    ) -> Work | None:
        """Return what is to be done next; None when there is nothing."""
        source_id = self.source.source_id
        positions = read_positions(connection, source_id)
        least = min(position.applied_seq for position in positions)
        sliced = [p.slice_seq for p in positions if p.slice_seq is not None]
        # Where slices of a shard are ahead, the rest of it goes exactly as far first.
        most = max(sliced or [position.applied_seq for position in positions])
        limits = Limits(
            seconds=config.batch_seconds,
            changes=settings.batch_changes,
            serial_segments=1 if least < self._alone_until else settings.serial_segments,
            serial_changes=settings.serial_changes,
            until=self.until,
        )
        if least == most:
            if positions[0].shard_count != config.shards:
                change_shard_count(connection, source_id, config.shards)
                reach("replayer.shards_changed")
                positions = read_positions(connection, source_id)
            room = self._limit(settings)
            if self.end_seq is not None:
                room = min(room, self.end_seq - least)
            segments = self._next_segments(connection, least, room)
            batch = plan_batch(segments, least, limits)
        else:
            # A run was killed between its shards: those that lag follow first, all the same way.
            room = most - least if sliced else min(most - least, self._limit(settings))
            segments = read_segments(connection, source_id, least, room)
            everything = Limits(seconds=10**9, changes=10**18)
            batch = plan_batch(segments, least, everything)
            if batch is None:
                raise missing_segment(least + 1)
        if batch is None:
            return None
        self._tried = batch.to_seq - batch.from_seq
        has_more = self._tried < len(segments) or len(segments) == room
        return Work(self.source, batch, positions, has_more)

    def _limit(self, settings: ReplaySettings) -> int:
        limit = settings.batch_segments
        return limit if self._most is None else min(limit, self._most)

    def _next_segments(self, connection: Connection, from_seq: int, room: int) -> Sequence[Segment]:
        """Return the segments after one, as many as there is room for.

        Raises
        ------
        SpoolError
            when there are none though some were written.

        """
        if room <= 0:
            return ()
        source_id = self.source.source_id
        segments = read_segments(connection, source_id, from_seq, room)
        if not segments and last_written(connection, source_id) > from_seq:
            # Written since, or missing.
            segments = read_segments(connection, source_id, from_seq, room)
            if not segments:
                raise missing_segment(from_seq + 1)
        return segments


def shard_tasks(
    work: Work,
    target: Endpoint,
    config: ReplayConfig,
    settings: ReplaySettings,
    staging_prefix: Callable[[int], str] | None,
) -> list[ShardTask]:
    """Return a task for each shard that has changes in the batch and has not applied them."""
    batch = work.batch
    dealt = shard_buckets(batch.buckets, work.positions[0].shard_count)
    prefix = None if staging_prefix is None else staging_prefix(work.source.source_id)
    waiting = [
        position
        for position in work.positions
        if position.shard in dealt and position.applied_seq < batch.to_seq
    ]
    slices = slice_counts(
        {position.shard: dealt[position.shard] for position in waiting},
        batch.bucket_changes,
        len(work.positions),
    )
    return [
        ShardTask(
            target=target,
            source_id=work.source.source_id,
            source=work.source.name,
            shard=position.shard,
            from_seq=position.applied_seq,
            to_seq=batch.to_seq,
            first_lsn=batch.first_lsn,
            to_lsn=batch.last_lsn,
            buckets=dealt[position.shard],
            on_error=config.on_error,
            on_conflict=config.on_conflict,
            settings=settings,
            staging_prefix=prefix,
            slice_count=slices[position.shard],
        )
        for position in waiting
    ]


def set_ends(
    control: Connection, works: Iterable[SourceWork], until: Mapping[str, Position]
) -> None:
    """Let each source end where its spool ends now; with positions, only the named ones go on."""
    for work in works:
        work.until = until.get(work.source.name)
        if until and work.source.name not in until:
            work.end_seq = 0
            continue
        work.end_seq = last_written(control, work.source.source_id)
