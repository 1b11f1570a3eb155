"""How ``pgrepl verify`` shows its progress and its result."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgrepl.cli.output.results import make_console, print_json, print_line
from pgrepl.config.naming import shown_name
from pgrepl.terminal import counted
from pgrepl.verify import RowDifference, TableReport, VerifyReport, Watcher

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["make_watcher", "print_reports"]

logger = logging.getLogger("pgrepl.verify")

#: Between two lines of progress without a terminal.
_LINE_EVERY_S = 5.0
#: Rows of a table that are printed for people; JSON has all that were found.
_SHOWN = 50


class LogWatcher:
    """A line of the log every few seconds."""

    def __init__(self, source: str) -> None:
        """Begin to count."""
        self._source = source
        self._last = time.monotonic()

    def begin(self, phase: str) -> None:
        """Log that a phase begins."""
        logger.info("verify: %s", phase, extra={"source": self._source})

    def show(self, done: int, total: int, source_rows: int) -> None:
        """Log how far it is, if the last line is old enough."""
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_S:
            self._last = now
            extra = {"source": self._source, "pieces": f"{done}/{total}", "rows": source_rows}
            logger.info("verify: comparing", extra=extra)


class BarWatcher:
    """A bar on a terminal."""

    def __init__(self, progress: Progress, source: str) -> None:
        """Add the bar."""
        self._progress = progress
        self._source = source
        self._bar = progress.add_task(source, total=None)

    def begin(self, phase: str) -> None:
        """Name the phase."""
        self._progress.update(self._bar, description=f"{self._source}: {phase}")

    def show(self, done: int, total: int, source_rows: int) -> None:
        """Move the bar."""
        self._progress.update(
            self._bar,
            completed=done,
            total=total,
            description=f"{self._source}: {source_rows:,} rows",
        )


@contextmanager
def make_watcher(source: str) -> Iterator[Watcher]:
    """Yield who shows the progress: a bar on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield LogWatcher(source)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        yield BarWatcher(progress, source)


def print_reports(reports: Sequence[VerifyReport], as_json: bool) -> None:
    """Print what was found."""
    if as_json:
        print_json({"sources": [_as_json(report) for report in reports]})
        return
    for report in reports:
        _print(report)


def _as_json(report: VerifyReport) -> dict[str, Any]:
    found = asdict(report)
    found["unreadable"] = [shown_name(*item.key) for item in report.unreadable]
    found["error"] = report.error and report.error.message
    found["seconds"] = round(report.seconds, 2)
    found["has_differences"] = report.has_differences
    found["uncompared"] = report.uncompared
    return found


def _print(report: VerifyReport) -> None:
    for found in report.structure:
        _line(
            f"structure: {found.table}: {found.what}:"
            f" source {found.source or '-'}, target {found.target or '-'}"
        )
    for finding in report.sequences:
        word = "sequence" if finding.is_difference else "lags"
        _line(
            f"{word}: {finding.name}: {finding.what}:"
            f" source {finding.source or '-'}, target {finding.target or '-'}"
        )
    for table in report.tables:
        _print_table(table)
    for item in report.unreadable:
        if item.is_sequence:
            _line(f"note: {shown_name(*item.key)}: value not compared: {item.reason}")
    rows = sum(table.source_rows for table in report.tables)
    count = sum(len(table.differences) for table in report.tables)
    more = any(table.has_more for table in report.tables)
    unsettled = sum(table.unsettled_count for table in report.tables)
    compared = sum(table.compared_count > 0 for table in report.tables)
    left = len(report.tables) - compared
    differ = counted(count, "row differs", "rows differ")
    closed = counted(len(report.unreadable), "table or sequence", "tables or sequences")
    _line(
        f"source {report.source}: {counted(compared, 'table')}, {counted(rows, 'row')} compared in"
        f" {report.seconds:.1f} s: {'at least ' * more}{differ}"
        + f", {counted(len(report.structure), 'difference')} of structure" * bool(report.structure)
        + f", {counted(unsettled, 'row')} not settled" * bool(unsettled)
        + f", {closed} not readable" * bool(report.unreadable)
        + f", {counted(left, 'table')} not compared" * bool(left)
    )


def _print_table(table: TableReport) -> None:
    if table.note is not None:
        _line(f"note: {table.name}: {table.note}")
    for difference in table.differences[:_SHOWN]:
        _print_difference(table.name, difference)
    left = len(table.differences) - _SHOWN
    if left > 0 or table.has_more:
        count = counted(max(left, 0), "row")
        _line(f"more: {table.name}: {'at least ' * table.has_more}{count}; see --json")
    if table.unsettled_count:
        _line(f"not settled: {table.name}: {counted(table.unsettled_count, 'row')}")
    if table.unsettled_piece_count:
        pieces = f"{table.unsettled_piece_count} of {table.piece_count} pieces"
        _line(f"not settled: {table.name}: {pieces}: too much changed each time")


def _print_difference(table: str, difference: RowDifference) -> None:
    key = ", ".join(f"{name}={text}" for name, text in difference.key.items())
    columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
    times = f" {difference.count} times" if not difference.key else ""
    _line(f"{difference.kind}: {table} ({key}){times}{columns}")
    for side, row in (("source", difference.source_row), ("target", difference.target_row)):
        if row is not None:
            _line(f"  {side}: {_row(row)}")


def _row(row: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{name}={'null' if text is None else repr(text)}" for name, text in row.items()
    )


def _line(text: str) -> None:
    print_line(text)
