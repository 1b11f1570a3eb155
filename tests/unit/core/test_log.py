from __future__ import annotations

import io
import json
import logging
import re

import pytest

from pgrepl.log import configure_logging
from pgrepl.lsn import Lsn


@pytest.fixture
def logged():
    logger = logging.getLogger("pgrepl")
    saved = (logger.handlers, logger.propagate, logger.level)

    def log(log_format, write, *, is_verbose=False):
        stream = io.StringIO()
        configure_logging(log_format, is_verbose=is_verbose, stream=stream)
        write(logging.getLogger("pgrepl.receiver"))
        return stream.getvalue()

    yield log
    logger.handlers, logger.propagate, logger.level = saved


def test_text_is_one_line_with_time_level_event_and_facts(logged):
    line = logged("text", lambda log: log.info("slot made", extra={"slot": "s", "why": "a b"}))
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(stamp + ' info    slot made slot=s why="a b"\n', line)


def test_json_is_one_object_a_line_with_the_facts_in_it(logged):
    line = logged("json", lambda log: log.warning("slot %s", "x", extra={"lsn": Lsn(1)}))
    entry = json.loads(line)
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "level": "warning",
        "logger": "pgrepl.receiver",
        "event": "slot x",
        "lsn": "0/1",
    }
    assert line.count("\n") == 1


def test_debug_shows_only_when_verbose(logged):
    assert logged("text", lambda log: log.debug("detail")) == ""
    assert "detail" in logged("text", lambda log: log.debug("detail"), is_verbose=True)


def test_traceback_stays_inside_the_json_line(logged):
    def fail(log):
        try:
            raise ValueError("x")  # noqa: TRY301
        except ValueError:
            log.exception("it failed")

    line = logged("json", fail)
    assert "ValueError" in json.loads(line)["traceback"]
    assert line.count("\n") == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_cannot_write_to_the_terminal(logged, log_format):
    name = "a\x1b[2J\nb\x9b"

    def write(log):
        try:
            raise ValueError(name)  # noqa: TRY301
        except ValueError:
            log.exception("table %s", name, extra={"table": name, "short": "\x1b"})

    text = logged(log_format, write)
    assert all(line.isprintable() for line in text.split("\n"))
    if log_format == "json":
        entry = json.loads(text)
        assert (entry["event"], entry["table"], entry["short"]) == (f"table {name}", name, "\x1b")
    else:
        # A line break in a name begins no line that looks like one of ours.
        assert text.startswith(text.split(" ")[0])
        assert r"table a\x1b[2J\nb\x9b " in text.split("\n")[0]
