"""All sources at a glance: a line for each, no wider than 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pgrepl.cli.output.status_lines import print_bytes, print_pause
from pgrepl.config.naming import shown_name
from pgrepl.durations import print_duration
from pgrepl.terminal import command, counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgrepl.status import SourceStatus

__all__ = ["WIDTH", "overview"]

WIDTH = 80
#: Columns and their widths, a space between them.
_COLUMNS = {"source": 17, "state": 14, "lag": 14, "WAL": 7, "spool": 7, "tables": 6, "": 9}
#: So many paused tables are named.
_NAMED = 5


def overview(sources: Sequence[SourceStatus]) -> Iterator[str]:
    """Return the lines: a head, one for each source, then what needs a hand."""
    yield _row(_COLUMNS)
    for source in sources:
        yield _row(_cells(source))
    for source in sources:
        for text in _pauses(source):
            yield from _folded(text)
        for problem in source.problems:
            yield from _folded(f"{source.name}: {problem.message}")
            if problem.hint:
                yield from _folded(f"  {problem.hint}")
    if any(source.problems for source in sources):
        yield "Details: pgrepl status SOURCE, or pgrepl status --details"


def _row(cells: Sequence[str] | dict[str, int]) -> str:
    widths = _COLUMNS.values()
    return " ".join(map(_fitted, cells, widths)).rstrip()


def _fitted(text: str, width: int) -> str:
    """Cut a text to a width; names may hold what moves a cursor."""
    text = printable(text)
    return f"{text[: width - 1]}…" if len(text) > width else text.ljust(width)


def _cells(status: SourceStatus) -> Sequence[str]:
    source, target = status.source, status.target
    held = None if source is None else source.held_bytes
    return (
        status.name,
        "paused" if target is not None and target.pause is not None else status.state,
        _lag(status),
        "-" if held is None else _size(held),
        "-" if target is None else _size(target.row.byte_count),
        "-" if target is None else str(target.row.ready_count),
        counted(len(status.problems), "problem") if status.problems else "ok",
    )


def _pauses(status: SourceStatus) -> Iterator[str]:
    """Say what a person has paused, and may have forgotten: no problem, but not as ever either."""
    target = status.target
    if target is None:
        return
    tables = [
        shown_name(table.schema_name, table.table_name)
        for table in target.tables
        if table.parked_kind == "paused"
    ]
    if target.pause is not None:
        yield f"{status.name}: {print_pause(target.pause)}"
    if tables:
        more = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
        yield f"{status.name}: {', '.join(tables[:_NAMED])}{more} paused"
    if tables or target.pause is not None:
        yield f"  Go on with: {command('resume', status.name)}"


def _lag(status: SourceStatus) -> str:
    if status.positions is None:
        return "-"
    step = status.positions.applied
    if step.lag_bytes == 0:
        return "none"
    return f"{'<= ' * (step.lag_bytes is None)}{print_duration(step.lag_s)}"


def _size(count: float) -> str:
    return print_bytes(count).replace("bytes", "B")


def _folded(text: str) -> Sequence[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        printable(text.strip()),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
