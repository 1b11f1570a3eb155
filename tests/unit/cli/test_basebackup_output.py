"""How people see a copy get on."""

from __future__ import annotations

import io
import logging
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from pgrepl.cli.output import basebackup_output
from pgrepl.cli.output.basebackup_output import BarWatcher, LogWatcher, make_bars
from pgrepl.log import configure_logging
from pgrepl.store.tables.copy_work import TableProgress

MB = 1024 * 1024
CONTROL = re.compile("\x1b[^a-zA-Z]*[a-zA-Z]|\r")


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(basebackup_output, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def logged(caplog, monkeypatch):
    """Return the facts of the lines logged."""
    monkeypatch.setattr(logging.getLogger("pgrepl"), "propagate", True)
    caplog.set_level(logging.INFO, "pgrepl")
    return lambda: [vars(r) for r in caplog.records if r.message == "basebackup: copying"]


def table(name="t", *, rows=0, megabytes=0, size=200, done=0, is_ready=False):
    return TableProgress(
        schema_name="app",
        table_name=name,
        is_ready=is_ready,
        size_bytes=size * MB,
        done_bytes=done * MB,
        row_count=rows,
        byte_count=megabytes * MB,
        seconds=0.0,
    )


class Terminal:
    """What a terminal of some columns shows."""

    def __init__(self, clock: Clock, columns: int = 80) -> None:
        self._out = io.StringIO()
        self._console = Console(
            file=self._out, force_terminal=True, width=columns, get_time=clock, _environ={}
        )
        self.bars = make_bars(self._console)
        # Drawn when a test asks for it, and not by a thread at some moment in between.
        self.bars.live.auto_refresh = False

    def lines(self) -> list[str]:
        """Return the bars as they are now."""
        self._out.truncate(self._out.seek(0))
        self.bars.refresh()
        return CONTROL.sub("", self._out.getvalue()).splitlines()

    @property
    def text(self) -> str:
        return self._out.getvalue()


def test_bars_show_rows_bytes_rate_and_the_time_left_of_each_table_and_of_all(clock):
    terminal = Terminal(clock)
    with terminal.bars as bars:
        watcher = BarWatcher(bars)
        watcher.show([table("t", rows=1000, megabytes=10), table("u", rows=500, megabytes=5)])
        clock.now += 2
        watcher.show([table("t", rows=9000, megabytes=90), table("u", rows=1500, megabytes=15)])
        total, first, second = terminal.lines()
    assert total.split()[:2] == ["all", "tables"]
    assert total.split()[3:] == ["26%", "10,500", "rows", "105.0", "MB", "45.0", "MB/s", "0:00:07"]
    assert first.split()[0] == "app.t"
    assert first.split()[2:] == ["45%", "9,000", "rows", "90.0", "MB", "40.0", "MB/s", "0:00:03"]
    assert second.split()[0] == "app.u"
    assert second.split()[2:] == ["8%", "1,500", "rows", "15.0", "MB", "5.0", "MB/s", "0:00:37"]


def test_bar_of_a_table_goes_when_it_is_ready(clock):
    terminal = Terminal(clock)
    with terminal.bars as bars:
        watcher = BarWatcher(bars)
        watcher.show([table("t", rows=1, megabytes=1), table("later")])
        assert [line.split()[0] for line in terminal.lines()] == ["all", "app.t"]
        watcher.show([table("t", rows=9, megabytes=9, is_ready=True), table("later")])
        assert [line.split()[0] for line in terminal.lines()] == ["all"]


def test_long_or_strange_names_leave_room_for_the_figures(clock):
    terminal = Terminal(clock)
    with terminal.bars as bars:
        watcher = BarWatcher(bars)
        for rows in (1, 1_000_000_000):
            clock.now += 1
            watcher.show(
                [
                    table("x" * 63, rows=rows, megabytes=90),
                    table("[red]\n", rows=rows, megabytes=90),
                ]
            )
        _, long, strange = terminal.lines()
    assert long.startswith("app.xxx")
    assert "… " in long
    assert long.endswith("45% 1,000,000,000 rows  90.0 MB 0.0 MB/s -:--:--")
    assert strange.startswith(r"app.[red]\n ")


def test_what_was_copied_before_counts_for_no_rate(clock):
    terminal = Terminal(clock)
    ready = table("done", rows=7, megabytes=900, size=1000, is_ready=True)
    with terminal.bars as bars:
        watcher = BarWatcher(bars)
        watcher.show([ready, table("t", rows=1, megabytes=10)])
        clock.now += 1
        watcher.show([ready, table("t", rows=2, megabytes=30)])
        total, _ = terminal.lines()
    assert total.split()[-3:] == ["20.0", "MB/s", "0:00:09"]


def test_resync_of_one_table_does_not_count_the_others(clock):
    terminal = Terminal(clock)
    # Its parts were removed when its copy ended.
    other = table("other", rows=1_000_000, megabytes=5000, size=0, is_ready=True)
    with terminal.bars as bars:
        BarWatcher(bars).show([other, table("t", rows=10, megabytes=50)])
        total, _ = terminal.lines()
    assert total.split()[3:8] == ["25%", "10", "rows", "50.0", "MB"]


def test_lines_of_the_log_go_above_the_bars(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    pgrepl = logging.getLogger("pgrepl")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(pgrepl, name, getattr(pgrepl, name))
    configure_logging("text", is_verbose=False)
    terminal = Terminal(clock)
    with terminal.bars as bars:
        watcher = BarWatcher(bars)
        watcher.show([table("t", rows=10, megabytes=50)])
        terminal.lines()
        logging.getLogger("pgrepl.basebackup").warning("it happens")
        watcher.begin("keys")
    # Both bars are wiped first, and drawn again below in their own colours.
    wipe = "\r\x1b[2K\x1b[1A\x1b[2K"
    log, keys = terminal.text.split(wipe)[2:4]
    assert [line.split()[0] for line in log.splitlines()[1:]] == ["all", "app.t"]
    assert log.splitlines()[0].endswith("warning it happens")
    assert keys.startswith("\x1b[2mkeys …\x1b[0m\n")
    assert "\x1b[2m" not in keys[len("\x1b[2mkeys") :]


def test_log_has_a_line_every_few_seconds_with_the_rate_and_the_time_left(clock, logged):
    watcher = LogWatcher("shop")
    clock.now += 600
    watcher.begin("data")
    for second in range(1, 12):
        clock.now += 1
        watcher.show([table(rows=100 * second, megabytes=10 * second), table("later", size=0)])
    lines = logged()
    assert [line["mb"] for line in lines] == [50, 100]
    assert [line["mb_per_s"] for line in lines] == [10, 10]
    assert [line["seconds_left"] for line in lines] == [15, 10]
    assert [(line["rows"], line["percent"], line["tables"]) for line in lines] == [
        (500, 25, "0/2"),
        (1000, 50, "0/2"),
    ]


def test_log_of_a_copy_that_goes_on_tells_the_rate_of_now(clock, logged):
    ready = table("done", megabytes=900, size=1000, is_ready=True)
    watcher = LogWatcher("shop")
    watcher.begin("data")
    for second in range(1, 61):
        clock.now += 1
        # After half a minute it is twice as fast.
        megabytes = second + max(second - 30, 0)
        watcher.show([ready, table(megabytes=megabytes)])
    lines = logged()
    assert (lines[0]["mb_per_s"], lines[-1]["mb_per_s"]) == (1, 2)
    assert (lines[0]["seconds_left"], lines[-1]["seconds_left"]) == (195, 55)


def test_log_of_empty_tables_is_at_its_end(clock, logged):
    watcher = LogWatcher("shop")
    clock.now += 6
    watcher.show([table(size=0)])
    (line,) = logged()
    assert (line["percent"], line["mb_per_s"], line["seconds_left"]) == (100, None, None)
