"""How ``pgrepl status`` shows what it found: on a terminal, in a pipe, as JSON."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pgrepl.cli.output.plot import sparkline
from pgrepl.cli.output.results import (
    is_terminal,
    make_console,
    print_json,
    print_json_line,
    print_line,
    printable,
)
from pgrepl.cli.output.status_lines import Line, block, print_bytes
from pgrepl.cli.output.status_overview import overview
from pgrepl.errors import PgreplError
from pgrepl.status.document import as_json

if TYPE_CHECKING:
    from datetime import datetime

    from rich.live import Live
    from rich.text import Text

    from pgrepl.lsn import Lsn
    from pgrepl.status import SourceStatus, Status

__all__ = ["make_printer"]

#: Number of looks that fit into a sparkline.
_REMEMBERED = 40


class Printer(Protocol):
    """Shows one status after the other."""

    def show(self, status: Status) -> None:
        """Show a status."""

    def show_error(self, error: PgreplError) -> None:
        """Show why there is none this time."""


@contextmanager
def make_printer(
    *, is_json: bool, is_watching: bool, is_detailed: bool = True
) -> Iterator[Printer]:
    """Choose by who reads."""
    if is_json:
        yield _JsonPrinter(is_line=is_watching)
    elif not is_detailed and not is_watching:
        yield _OverviewPrinter()
    elif not is_terminal():
        yield _LinePrinter()
    elif not is_watching:
        yield _TerminalPrinter()
    else:
        from rich.live import Live

        with Live(console=make_console(), auto_refresh=False) as live:
            yield _TerminalPrinter(live)


class _JsonPrinter:
    def __init__(self, *, is_line: bool) -> None:
        self._is_line = is_line

    def show(self, status: Status) -> None:
        if self._is_line:
            print_json_line(as_json(status))
        else:
            print_json(as_json(status))

    def show_error(self, error: PgreplError) -> None:
        document = {"exit_code": error.exit_code, "error": error.message, "hint": error.hint}
        print_json_line(document)


class _OverviewPrinter:
    def show(self, status: Status) -> None:
        for line in overview(status.sources):
            print_line(line)

    def show_error(self, error: PgreplError) -> None:
        print_line(f"error: {error.message}")


class _LinePrinter:
    def show(self, status: Status) -> None:
        for source in status.sources:
            for line in block(source):
                print_line(_plain(line))

    def show_error(self, error: PgreplError) -> None:
        print_line(f"error: {error.message}")


class _TerminalPrinter:
    """Prints in colour; given a live display, in place and with the lag's history."""

    def __init__(self, live: Live | None = None) -> None:
        self._live = live
        self._lags: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._last: dict[str, tuple[datetime, Lsn]] = {}

    def show(self, status: Status) -> None:
        from rich.console import Group
        from rich.text import Text

        parts = []
        for source in status.sources:
            history = self._remember(source, status.at) if self._live is not None else None
            parts += [_styled(line) for line in block(source, history)]
            parts.append(Text())
        if self._live is None:
            make_console().print(Group(*parts), highlight=False)
            return
        parts.append(Text(f"{status.at:%Y-%m-%d %H:%M:%S}, Ctrl-C ends", style="dim"))
        self._live.update(Group(*parts), refresh=True)

    def show_error(self, error: PgreplError) -> None:
        from rich.text import Text

        if self._live is not None:
            text = Text(f"error: {printable(error.message)}", style="red")
            self._live.update(text, refresh=True)

    def _remember(self, source: SourceStatus, at: datetime) -> str:
        """Return the history of a source's lag, and how fast it is received."""
        if source.positions is None:
            return ""
        lags = self._lags[source.name]
        lags.append(source.positions.applied.lag_s)
        text = sparkline(list(lags))
        flushed = source.positions.flushed.lsn
        last_at, last = self._last.get(source.name, (at, flushed))
        self._last[source.name] = (at, flushed)
        if flushed > last:
            rate = (flushed - last) / (at - last_at).total_seconds()
            text += f"  receiving {print_bytes(rate)} of WAL per second"
        return text


def _plain(line: Line) -> str:
    return f"{line.label:12} {line.text}".rstrip()


def _styled(line: Line) -> Text:
    from rich.text import Text

    text = Text(f"{printable(line.label):12} ", style=line.style if line.is_title else "dim")
    text.append(printable(line.text), style=line.style if not line.is_title else "")
    return text
