"""How ``pgrepl status --since`` shows how sources fared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pgrepl.cli.output.plot import plot, resample, sparkline
from pgrepl.cli.output.status_lines import print_bytes
from pgrepl.durations import print_duration

if TYPE_CHECKING:
    from pgrepl.status.history import History, Point

__all__ = ["history_lines"]

#: Of the plot, in lines.
_HEIGHT = 5
#: What stands to the left of it.
_MARGIN = 13
_LEAST_WIDTH = 20
#: Holes shorter than this many intervals are drawn over: looks do not come to the second.
_BRIDGED = 3


def history_lines(history: History, now: datetime, width: int | None = None) -> Iterator[str]:
    """Return lines that fit a terminal, or the given number of columns."""
    columns = width or shutil.get_terminal_size((80, 24)).columns
    room = max(min(columns, 120) - _MARGIN, _LEAST_WIDTH)
    if not any(history.sources.values()):
        yield "nothing is written down yet: pgrepl replay or pgrepl monitor does that as they run"
    for name, points in history.sources.items():
        yield from _source(name, points, history, now, room)


def _source(
    name: str, points: Sequence[Point], history: History, now: datetime, room: int
) -> Iterator[str]:
    begin = now - history.since

    def over_time(read: Callable[[Point], float | None], count: int) -> list[float | None]:
        span = history.since.total_seconds()
        values = [((point.at - begin).total_seconds() / span, read(point)) for point in points]
        length = history.resolution.total_seconds() / span * count
        return _bridged(resample(values, count), round(_BRIDGED * length))

    lags = [(point.lag_seconds, point.at) for point in points if point.lag_seconds is not None]
    yield f"{name}, the last {print_duration(history.since.total_seconds())}"
    if not lags:
        yield "  nothing is written down of it"
        return
    most, at = max(lags)
    yield f"  {'lag':11}at most {print_duration(most)}, {at:%Y-%m-%d %H:%M:%S}Z"
    # A braille character is two values wide.
    drawn = plot(over_time(lambda point: point.lag_seconds, 2 * room), _HEIGHT)
    for number, line in enumerate(drawn):
        label = print_duration(most) if number == 0 else "0" if number == _HEIGHT - 1 else ""
        yield f"{label:>{_MARGIN - 2}} │{line}"
    first, last = f"{begin:%H:%M}Z", "now"
    yield " " * _MARGIN + first + last.rjust(room - len(first))
    for label, read, show in (
        ("received", lambda point: point.received_per_second, _changes),
        ("applied", lambda point: point.applied_per_second, _changes),
        ("spool", lambda point: point.spool_bytes, print_bytes),
        ("WAL kept", lambda point: point.held_bytes, print_bytes),
    ):
        values = over_time(read, room)
        known = [value for value in values if value is not None]
        if any(known):
            yield f"  {label:11}{sparkline(values)}".rstrip()
            yield f"{'':{_MARGIN}}at most {show(max(known))}"
    down = over_time(lambda point: None if point.is_reachable else 1.0, room)
    if any(down):
        marks = "".join("x" if value else " " for value in down)
        yield f"  {'down':11}{marks}".rstrip()


def _bridged(values: list[float | None], longest: int) -> list[float | None]:
    """Fill short holes with the value before them: there are more columns than looks."""
    filled = list(values)
    since = longest + 1
    for place, value in enumerate(values):
        since = 0 if value is not None else since + 1
        if value is None and since <= longest:
            filled[place] = filled[place - 1]
    return filled


def _changes(rate: float) -> str:
    return f"{rate:,.1f} changes a second" if rate < 10 else f"{rate:,.0f} changes a second"  # noqa: PLR2004
