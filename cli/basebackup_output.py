"""How ``pgrepl basebackup`` shows its progress, its plan and its result."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from pgrepl.basebackup.needs import LeftOut
from pgrepl.basebackup.plan import CopyPlan
from pgrepl.basebackup.report import CopyReport, Stage, Watcher
from pgrepl.basebackup.state import TableProgress
from pgrepl.cli.output import is_terminal, print_json

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["make_watcher", "print_plan", "print_report"]

logger = logging.getLogger("pgrepl.basebackup")

_MB = 1024 * 1024
#: Between two lines of progress where nobody watches.
_LINE_EVERY_S = 5.0
#: Below this share of the whole nobody can say how long the rest takes.
_TELLING = 0.01


class LogWatcher:
    """A line of the log every few seconds."""

    def __init__(self, source: str) -> None:
        """Begin to count."""
        self._source = source
        self._begin = self._last = time.monotonic()

    def begin(self, stage: Stage) -> None:
        """Log that a stage begins."""
        logger.info("basebackup: %s", stage, extra={"source": self._source})

    def show(self, tables: Sequence[TableProgress]) -> None:
        """Log how far it is, if the last line is old enough."""
        now = time.monotonic()
        if now - self._last < _LINE_EVERY_S:
            return
        self._last = now
        copied = sum(table.byte_count for table in tables)
        logger.info(
            "basebackup: copying",
            extra={
                "source": self._source,
                "tables": f"{sum(table.is_ready for table in tables)}/{len(tables)}",
                "rows": sum(table.row_count for table in tables),
                "mb": round(copied / _MB, 1),
                "mb_per_s": round(copied / _MB / (now - self._begin), 1),
                "percent": round(100 * _fraction(tables)),
                "seconds_left": _seconds_left(tables, now - self._begin),
            },
        )


class BarWatcher:
    """Bars on a terminal: one for everything, one for each table at work."""

    def __init__(self, progress: Progress) -> None:
        """Add the bar for everything."""
        self._progress = progress
        self._total = progress.add_task("all tables", total=1.0)
        self._bars: dict[str, Any] = {}

    def begin(self, stage: Stage) -> None:
        """Name the stage."""
        self._progress.console.print(f"{stage} …", style="dim")

    def show(self, tables: Sequence[TableProgress]) -> None:
        """Move the bars."""
        copied = sum(table.byte_count for table in tables)
        rows = sum(table.row_count for table in tables)
        self._progress.update(
            self._total,
            completed=_fraction(tables),
            description=f"all tables: {rows:,} rows, {copied / _MB:,.0f} MB",
        )
        for table in tables:
            if table.is_ready:
                bar = self._bars.pop(table.name, None)
                if bar is not None:
                    self._progress.remove_task(bar)
            elif table.row_count:
                if table.name not in self._bars:
                    self._bars[table.name] = self._progress.add_task(table.name, total=1.0)
                self._progress.update(
                    self._bars[table.name],
                    completed=_fraction([table]),
                    description=f"{table.name}: {table.row_count:,} rows",
                )


def _fraction(tables: Sequence[TableProgress]) -> float:
    """How much of the copy is done, by the bytes on the source; texts are not as long as rows."""
    total = sum(max(table.size_bytes, 1) for table in tables)
    done = sum(
        max(table.size_bytes, 1)
        if table.is_ready
        else min(max(table.done_bytes, table.byte_count), table.size_bytes)
        for table in tables
    )
    return done / total if total else 1.0


def _seconds_left(tables: Sequence[TableProgress], elapsed_s: float) -> int | None:
    done = _fraction(tables)
    return round(elapsed_s * (1 - done) / done) if done > _TELLING else None


@contextmanager
def make_watcher(source: str) -> Iterator[Watcher]:
    """Yield who shows the progress: bars on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield LogWatcher(source)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield BarWatcher(progress)


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
        typer.echo(
            f"source {report.source} is copied already, into {where}; --restart does it anew"
        )
    elif report.outcome == "schema made":
        typer.echo(f"schema of source {report.source} made in {where}; no rows were copied")
    else:
        rows = sum(table.row_count for table in report.tables)
        size = sum(table.byte_count for table in report.tables) / _MB
        typer.echo(
            f"source {report.source} copied into {where} as of {report.consistent_point}:"
            f" {len(report.tables)} tables, {rows:,} rows, {size:,.1f} MB in {report.seconds:.1f} s"
        )
        typer.echo(f"next: pgrepl receive {report.source}")


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
        typer.echo(f"left out: {item.kind} {item.name}: {item.reason}")


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
        typer.echo(f"then: {step.sql}")
    _print_left_out(plan.left_out)
    size = sum(table.size_bytes for table in plan.tables) / _MB
    typer.echo(
        f"{len(plan.tables)} tables, {size:,.1f} MB;"
        f" about {plan.seconds_estimate:.0f} s for the data; nothing was changed"
    )


def _print_grid(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print columns, the first two kinds of text to the left, figures to the right."""
    if is_terminal():
        from rich.console import Console
        from rich.table import Table

        grid = Table(box=None)
        for index, name in enumerate(header):
            grid.add_column(name, justify="left" if index == 0 else "right")
        for row in rows:
            grid.add_row(*row)
        Console().print(grid)
        return
    for row in (header, *rows):
        typer.echo("\t".join(row))
