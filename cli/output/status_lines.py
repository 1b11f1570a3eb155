"""The status of one source in words, a line for each thing a DBA looks for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pgrepl.durations import print_duration
from pgrepl.store.tables.unselected import UNSELECTED
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.status import Positions, SourceStatus, Step
    from pgrepl.status.facts import SourceFacts, TargetFacts
    from pgrepl.store.monitoring.overview import TableOverview
    from pgrepl.store.pauses import Pause
    from pgrepl.store.spool.consumers import ConsumerOverview

__all__ = ["Line", "block", "print_bytes", "print_pause"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_KILO = 1024
#: Below this a number keeps a decimal.
_SMALL = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a word, and what there is to say."""

    label: str
    text: str
    #: A colour of the terminal.
    style: str = ""
    is_title: bool = False


def print_bytes(count: float) -> str:
    """Print a size in the unit that fits; powers of 1024, as PostgreSQL counts."""
    unit = 0
    while count >= _KILO and unit < len(_UNITS) - 1:
        count /= _KILO
        unit += 1
    number = f"{count:.1f}" if unit and count < _SMALL else f"{count:.0f}"
    return f"{number} {_UNITS[unit]}"


def block(source: SourceStatus, history: str | None = None) -> list[Line]:
    """Return the lines of a source, the title first."""
    lines = [_title(source, history)]
    if source.positions is not None:
        lines += _positions(source.positions, source)
    if source.source is not None:
        lines += _slot(source.source, source.seconds_to_loss)
    if source.target is not None:
        lines += _target(source.target)
    for problem in source.problems:
        lines.append(Line("  problem", problem.message, "red"))
        if problem.hint:
            lines.append(Line("", f"{problem.hint}", "cyan"))
    return lines


def _title(source: SourceStatus, history: str | None) -> Line:
    colour = "red" if source.problems else "green" if source.state == "streaming" else "yellow"
    text: str = source.state
    if source.positions is not None:
        text += f", {_lag(source.positions.applied, source)}"
    if history:
        text += f"  {history}"
    return Line(source.name, text, f"bold {colour}", is_title=True)


def _lag(step: Step, status: SourceStatus) -> str:
    if step.lag_bytes == 0:
        return "no lag"
    seconds = print_duration(step.lag_s)
    if step.lag_bytes is None:
        return f"lag at most {seconds}"
    is_stream = status.source is not None and status.source.is_stream
    much = counted(step.lag_bytes, "record") if is_stream else print_bytes(step.lag_bytes)
    return f"lag {seconds}, {much}"


def _positions(positions: Positions, status: SourceStatus) -> Iterator[Line]:
    yield Line("  source", str(positions.source) if positions.source else "unknown")
    source = status.source
    since = source.receiver_since if source is not None else None
    receiver = f"receiver connected since {since:%Y-%m-%d %H:%M:%S}Z" if since else ""
    if source is not None and not since:
        is_pulled = status.target is not None and status.target.is_receiving
        receiver = "receiver catches up" if is_pulled else "no receiver is connected"
    steps = (
        ("  received", positions.received, receiver),
        ("  flushed", positions.flushed, ""),
        ("  applied", positions.applied, ""),
    )
    for label, step, more in steps:
        text = f"{step.lsn!s:17} {_lag(step, status):28} {more}".rstrip()
        yield Line(label, text, "" if step.lag_bytes == 0 else "yellow")


def _slot(source: SourceFacts, to_loss_s: float | None) -> Iterator[Line]:
    if source.plugin is None:
        return
    words = ["active" if source.is_active else "inactive", f"WAL {source.wal_status}"]
    if source.held_bytes is not None:
        words.append(f"{print_bytes(source.held_bytes)} of WAL held")
    if source.confirmed_lsn is not None:
        words.append(f"confirmed {source.confirmed_lsn}")
    colour = "" if source.wal_status in ("reserved", "extended") else "red"
    yield Line("  slot", ", ".join(words), colour)
    limits = []
    if source.safe_bytes is not None:
        limits.append(f"{print_bytes(max(source.safe_bytes, 0))} more until it is lost")
        if to_loss_s is not None and to_loss_s < math.inf:
            limits.append(f"{print_duration(to_loss_s)} without a receiver")
    if limits:
        yield Line("", ", ".join(limits), colour)
    if source.keep_bytes is not None:
        yield Line("", f"max_slot_wal_keep_size {print_bytes(source.keep_bytes)}", colour)


def _target(target: TargetFacts) -> Iterator[Line]:
    row = target.row
    if row.state == "streaming":
        yield Line("  spool", _spool(target))
        yield Line("  replay", _replay(target))
    for shard in target.shards:
        lag = max((row.last_seq or 0) - shard.applied_seq, 0)
        text = (
            f"{shard.applied_lsn!s:17} lags by {counted(lag, 'segment')}" if lag else "all applied"
        )
        yield Line(f"  shard {shard.shard}", text, "yellow" if lag else "")
    for consumer in target.consumers:
        yield _consumer(consumer, target.clock_at)
    yield Line("  tables", _tables(target))
    for table in target.tables:
        if reason := _not_well(table):
            is_stuck = table.parked_kind not in (None, "paused", "locked")
            is_bad = is_stuck or table.needs_resync
            yield Line("", f"{table.name}: {reason}", "red" if is_bad else "yellow")
    for failure in target.failures:
        yield Line("  last error", f"{failure.stage}, {failure.at:%Y-%m-%d %H:%M:%S}Z", "red")


def _consumer(consumer: ConsumerOverview, now: datetime) -> Line:
    label = f"  {consumer.kind}"
    place = f"{consumer.name} to {consumer.destination}"
    if consumer.lost_at is not None:
        return Line(label, f"{place}: let go at {consumer.lost_at:%Y-%m-%d %H:%M:%S}Z", "red")
    if consumer.state == "starting":
        return Line(label, f"{place}: has not begun", "yellow")
    if not consumer.segment_count:
        return Line(label, f"{place}: all exported")
    lag = f"lags by {counted(consumer.segment_count, 'segment')}"
    kept = f"{print_bytes(consumer.byte_count)} kept"
    moved = f"moved {consumer.moved_at:%Y-%m-%d %H:%M:%S}Z"
    text = f"{consumer.lsn!s:17} {lag}, {kept}, {place}, {moved}"
    left_s = consumer.seconds_left(now)
    if left_s is not None and consumer.is_in_danger(now):
        return Line(label, f"{text}, let go in {print_duration(left_s)}", "red")
    return Line(label, text, "yellow")


def _spool(target: TargetFacts) -> str:
    row = target.row
    if not row.segment_count:
        return "empty"
    sizes = (counted(row.segment_count, "segment"), counted(row.change_count, "change"))
    text = ", ".join((*sizes, print_bytes(row.byte_count)))
    if row.oldest_commit_at is not None:
        age_s = (target.clock_at - row.oldest_commit_at).total_seconds()
        text += f", the oldest from {print_duration(max(age_s, 0))} ago"
    return text


def _replay(target: TargetFacts) -> str:
    row = target.row
    words = ["running" if target.sessions.get("replay") else "not running"]
    if target.pause is not None:
        words.append(print_pause(target.pause))
    if row.published_at is not None:
        words.append(f"published {row.published_lsn} at {row.published_at:%Y-%m-%d %H:%M:%S}Z")
    if row.applied_bytes_per_s:
        words.append(f"{print_bytes(row.applied_bytes_per_s)} of WAL per second")
    return ", ".join(words)


def print_pause(pause: Pause) -> str:
    """Return since when a source is paused, by whom and why."""
    why = f" ({pause.reason})" if pause.reason else ""
    return f"paused since {pause.paused_at:%Y-%m-%d %H:%M:%S}Z by {pause.paused_by}{why}"


def _tables(target: TargetFacts) -> str:
    counts = {
        "ready": target.row.ready_count,
        "to copy": sum(table.state in ("pending", "copying") for table in target.tables),
        "parked": sum(
            table.parked_kind not in (None, "paused", "locked") for table in target.tables
        ),
        "paused": sum(table.parked_kind == "paused" for table in target.tables),
        "locked": sum(table.parked_kind == "locked" for table in target.tables),
        "need a resync": sum(table.needs_resync for table in target.tables),
        "passed over": sum(table.resync_reason == UNSELECTED for table in target.tables),
    }
    words = [f"{count} {word}" for word, count in counts.items() if count or word == "ready"]
    if target.pending_ddl_count:
        words.append(f"{target.pending_ddl_count} DDL pending")
    return ", ".join(words)


def _not_well(table: TableOverview) -> str:
    reasons = []
    if table.resync_state is not None:
        reasons.append(_resync(table))
    elif table.state == "copying":
        reasons.append(f"copying, {table.done_count} of {table.part_count} parts are here")
    if table.due_reason is not None:
        failed = f", failed {counted(table.due_attempts, 'time')}" if table.due_attempts else ""
        reasons.append(f"replay copies it again{failed}: {table.due_reason}")
    elif table.resync_reason == UNSELECTED:
        reasons.append(UNSELECTED)
    elif table.resync_reason is not None:
        reasons.append(f"needs a resync: {table.resync_reason}")
    if table.parked_reason is not None:
        # A pause and a lock say themselves what they are.
        word = "" if table.parked_kind in ("paused", "locked") else "parked: "
        waits = counted(table.parked_changes, "change waits", "changes wait")
        reasons.append(f"{word}{table.parked_reason}; {waits}")
    if table.missing_count or table.extra_count:
        reasons.append(
            f"{counted(table.missing_count, 'row was', 'rows were')} missing and"
            f" {table.extra_count} too many here"
        )
    return "; ".join(reasons)


def _resync(table: TableOverview) -> str:
    """Say how far a resync is."""
    words = [f"resync ({table.resync_way}) {table.resync_state}"]
    if table.resync_way == "chunked":
        words.append(_of_about(table.resync_chunks or 0, table.resync_chunk_estimate, "chunk"))
    elif table.part_count:
        words.append(f"{table.done_count} of {counted(table.part_count, 'part')}")
    if table.resync_rows:
        words.append(_of_about(table.resync_rows, table.resync_row_estimate, "row"))
    if table.resync_bytes and table.resync_estimate:
        size = f"{print_bytes(table.resync_bytes)} of about {print_bytes(table.resync_estimate)}"
        words.append(size)
    if table.resync_bytes_per_s is not None:
        words.append(f"{print_bytes(table.resync_bytes_per_s)}/s")
    if table.resync_seconds_left is not None:
        words.append(f"about {print_duration(table.resync_seconds_left)} left")
    if table.resync_state == "copied" and table.resync_wal_left:
        words.append(f"waits for replay to pass {print_bytes(table.resync_wal_left)} of WAL")
    if table.resync_error is not None:
        words.append(f"failed: {table.resync_error}")
    return ", ".join(words)


def _of_about(number: int, all_: int | None, thing: str) -> str:
    """Say how many of how many, as far as that is known."""
    if not all_:
        return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
    return f"{number:,} of about {all_:,} {thing}s"
