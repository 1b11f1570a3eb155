"""How ``pgrepl basebackup`` shows its progress, its plan and its result."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.basebackup.dry_run import CopyPlan
from pgrepl.basebackup.report import CopyReport, Phase, Watcher
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.cli.output.results import (
    is_terminal,
    make_console,
    print_columns,
    print_json,
    print_line,
    printable,
)
from pgrepl.store.tables.copy_work import TableProgress
from pgrepl.terminal import command, counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["BarWatcher", "LogWatcher", "make_bars", "make_watcher", "print_plan", "print_report"]

logger = logging.getLogger("pgrepl.basebackup")

_MB = 1024 * 1024
#: Between two lines of progress without a terminal.
_LINE_EVERY_S = 5.0
#: Seconds of which a rate is taken: long enough to be steady, short enough to be of now.
_PACE_S = 30.0
#: Longer names are cut, so that the figures have room on a terminal of 80 columns.
_NAME_WIDTH = 24


class LogWatcher:
    """A line of the log every few seconds."""

    def __init__(self, source: str) -> None:
        """Begin to count."""
        self._source = source
        self._last = time.monotonic()
        self._copied = _Pace()
        self._done = _Pace()

    def begin(self, phase: Phase) -> None:
        """Log that a phase begins."""
        self._last = time.monotonic()
        logger.info("basebackup: %s", phase, extra={"source": self._source})

    def show(self, tables: Sequence[TableProgress]) -> None:
        """Log how far it is, if the last line is old enough."""
        now = time.monotonic()
        amount = _Amount.of(tables)
        rate = self._copied.look(amount.byte_count, now)
        done_rate = self._done.look(amount.done_bytes, now)
        if now - self._last < _LINE_EVERY_S:
            return
        self._last = now
        left_bytes = amount.size_bytes - amount.done_bytes
        logger.info(
            "basebackup: copying",
            extra={
                "source": self._source,
                "tables": f"{sum(table.is_ready for table in tables)}/{len(tables)}",
                "rows": amount.row_count,
                "mb": round(amount.byte_count / _MB, 1),
                "mb_per_s": None if rate is None else round(rate / _MB, 1),
                "percent": round(100 * amount.done_bytes / amount.size_bytes),
                "seconds_left": round(left_bytes / done_rate) if done_rate else None,
            },
        )


class BarWatcher:
    """Bars on a terminal: one for everything, one for each table at work."""

    def __init__(self, progress: Progress) -> None:
        """Show nothing yet."""
        self._progress = progress
        self._total: _Bar | None = None
        self._bars: dict[str, _Bar] = {}

    def begin(self, phase: Phase) -> None:
        """Name the phase."""
        # A style given to print() would be that of the bars below too.
        self._progress.console.print(f"[dim]{phase} …[/dim]")

    def show(self, tables: Sequence[TableProgress]) -> None:
        """Move the bars."""
        if self._total is None:
            self._total = _Bar(self._progress, "all tables")
        self._total.show(_Amount.of(tables))
        for table in tables:
            if table.is_ready:
                bar = self._bars.pop(table.name, None)
                if bar is not None:
                    bar.remove()
            elif table.row_count:
                if table.name not in self._bars:
                    self._bars[table.name] = _Bar(self._progress, printable(table.name))
                self._bars[table.name].show(_Amount.of([table]))


class _Bar:
    """A bar of a terminal with its figures."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, rows="", size="", rate="")
        self._pace = _Pace()

    def show(self, amount: _Amount) -> None:
        rate = self._pace.look(amount.byte_count, time.monotonic())
        self._progress.update(
            self._task,
            completed=amount.done_bytes,
            total=amount.size_bytes,
            rows=f"{amount.row_count:,} rows",
            size=f"{amount.byte_count / _MB:,.1f} MB",
            rate="" if rate is None else f"{rate / _MB:,.1f} MB/s",
        )

    def remove(self) -> None:
        self._progress.remove_task(self._task)


@dataclass(frozen=True, slots=True)
class _Amount:
    """How much of some tables is copied."""

    row_count: int
    byte_count: int
    #: By the bytes on the source, since rows on the way are longer or shorter.
    done_bytes: int
    size_bytes: int

    @classmethod
    def of(cls, tables: Sequence[TableProgress]) -> _Amount:
        # What is ready and has no parts was copied before: a resync has nothing to do with it.
        tables = [table for table in tables if table.size_bytes or not table.is_ready]
        size_bytes = sum(table.size_bytes for table in tables)
        return cls(
            row_count=sum(table.row_count for table in tables),
            byte_count=sum(table.byte_count for table in tables),
            # Of nothing everything is done.
            done_bytes=sum(map(_done_bytes, tables)) if size_bytes else 1,
            size_bytes=size_bytes or 1,
        )


def _done_bytes(table: TableProgress) -> int:
    if table.is_ready:
        return table.size_bytes
    return min(max(table.done_bytes, table.byte_count), table.size_bytes)


class _Pace:
    """How fast an amount grows now. What was there at the first look is not counted."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, amount: int, now: float) -> float | None:
        """Return by how much it grows in a second; None before the second look."""
        self._looks.append((now, amount))
        while len(self._looks) > 1 and self._looks[1][0] <= now - _PACE_S:
            self._looks.popleft()
        begin, least = self._looks[0]
        return max(amount - least, 0) / (now - begin) if now > begin else None


@contextmanager
def make_watcher(source: str) -> Iterator[Watcher]:
    """Yield who shows the progress: bars on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield LogWatcher(source)
        return
    # Standard error is the bars' own as long as they are there: lines of the log go above them.
    with make_bars(make_console(stderr=True)) as progress:
        yield BarWatcher(progress)


def make_bars(console: Console) -> Progress:
    """Return bars with a name, rows, bytes, rate and the time left."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    def figure(field: str) -> TextColumn:
        return TextColumn(f"{{task.fields[{field}]}}", justify="right")

    return Progress(
        # A name may have brackets, which are no markup.
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(max_width=_NAME_WIDTH, no_wrap=True),
        ),
        # Alone in that it may become shorter than it wants to be.
        BarColumn(),
        TaskProgressColumn(),
        figure("rows"),
        figure("size"),
        figure("rate"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        console=console,
        transient=True,
    )


def print_report(report: CopyReport, as_json: bool) -> None:
    """Print how a copy ended."""
    if as_json:
        print_json(
            {
                "source": report.source,
                "outcome": report.outcome,
                "consistent_point": report.consistent_point and str(report.consistent_point),
                "seconds": round(report.seconds, 2),
                "target_schemas": list(report.target_schemas),
                "tables": [_table_json(table) for table in report.tables],
                "left_out": [asdict(item) for item in report.left_out],
            }
        )
        return
    if report.outcome in ("copied", "resumed"):
        _print_tables(report.tables)
    _print_left_out(report.left_out)
    where = ", ".join(report.target_schemas)
    if report.outcome == "already copied":
        print_line(f"source {report.source} is copied already, into {where}; --restart starts over")
    elif report.outcome == "schema made":
        print_line(f"schema of source {report.source} made in {where}; no rows were copied")
    else:
        rows = sum(table.row_count for table in report.tables)
        size = sum(table.byte_count for table in report.tables) / _MB
        print_line(
            f"source {report.source} copied into {where} as of {report.consistent_point}:"
            f" {counted(len(report.tables), 'table')}, {counted(rows, 'row')}, {size:,.1f} MB in"
            f" {report.seconds:.1f} s"
        )
        print_line(f"next: {command('receive', report.source)}")


def _table_json(table: TableProgress) -> dict[str, Any]:
    return {
        "schema": table.schema_name,
        "table": table.table_name,
        "rows": table.row_count,
        "bytes": table.byte_count,
        "seconds": round(table.seconds, 3),
        "mb_per_second": _rate(table),
    }


def _rate(table: TableProgress) -> float | None:
    return round(table.byte_count / _MB / table.seconds, 1) if table.seconds else None


def _print_tables(tables: Sequence[TableProgress]) -> None:
    rows = [
        (
            table.name,
            f"{table.row_count:,}",
            f"{table.byte_count / _MB:,.1f}",
            f"{table.seconds:.1f}",
            "" if _rate(table) is None else f"{_rate(table):,.1f}",
        )
        for table in sorted(tables, key=lambda table: -table.byte_count)
    ]
    _print_grid(("table", "rows", "MB", "seconds", "MB/s"), rows)


def _print_left_out(left_out: Sequence[LeftOut]) -> None:
    for item in left_out:
        print_line(f"skipped: {item.kind} {item.name}: {item.reason}")


def print_plan(plan: CopyPlan, as_json: bool) -> None:
    """Print what a copy would do."""
    if as_json:
        print_json(
            {
                "source": plan.source,
                "tables": [asdict(table) for table in plan.tables],
                "steps": [asdict(step) for step in plan.steps],
                "left_out": [asdict(item) for item in plan.left_out],
                "seconds_estimate": round(plan.seconds_estimate, 1),
            }
        )
        return
    rows = [
        (
            table.name,
            table.target,
            f"{table.size_bytes / _MB:,.1f}",
            f"{table.row_estimate:,}",
            str(table.parts),
        )
        for table in plan.tables
    ]
    _print_grid(("table", "becomes", "MB", "rows, about", "parts"), rows)
    for step in plan.steps:
        for line in f"then: {step.sql}".split("\n"):
            print_line(line)
    _print_left_out(plan.left_out)
    size = sum(table.size_bytes for table in plan.tables) / _MB
    print_line(
        f"{counted(len(plan.tables), 'table')}, {size:,.1f} MB;"
        f" about {plan.seconds_estimate:.0f} s for the data; nothing was changed"
    )


def _print_grid(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print columns, the first two kinds of text to the left, figures to the right."""
    if is_terminal():
        from rich.table import Table
        from rich.text import Text

        grid = Table(box=None)
        for index, name in enumerate(header):
            grid.add_column(name, justify="left" if index == 0 else "right")
        for row in rows:
            # A name may have brackets, which are no markup.
            grid.add_row(*(Text(printable(text)) for text in row))
        make_console().print(grid)
        return
    for row in (header, *rows):
        print_columns(row)
