"""All sources at a glance: a line for each, no wider than 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pgrepl.cli.output.status_lines import print_bytes
from pgrepl.durations import print_duration
from pgrepl.terminal import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgrepl.status import SourceStatus

__all__ = ["WIDTH", "overview"]

WIDTH = 80
#: Columns and their widths, a space between them.
_COLUMNS = {"source": 17, "state": 14, "lag": 14, "WAL": 7, "spool": 7, "tables": 6, "": 9}


def overview(sources: Sequence[SourceStatus]) -> Iterator[str]:
    """Return the lines: a head, one for each source, then what needs a hand."""
    yield _row(_COLUMNS)
    for source in sources:
        yield _row(_cells(source))
    for source in sources:
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
        status.state,
        _lag(status),
        "-" if held is None else _size(held),
        "-" if target is None else _size(target.row.byte_count),
        "-" if target is None else str(target.row.ready_count),
        counted(len(status.problems), "problem") if status.problems else "ok",
    )


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
