"""``pgrepl status`` as a person, a program and cron call it."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.support.observing.looking import apply_spool
from tests.support.program import COMMAND, run_pgrepl
from tests.support.running.streaming import Streaming


def status(streaming: Streaming, *arguments: str, code: int = 0) -> str:
    done = run_pgrepl("status", "--details", "--config", streaming.config, *arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout


def test_source_that_streams_is_shown_in_lines(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    apply_spool(streaming)
    text = status(streaming)
    labels = [line[:12].strip() for line in text.splitlines()]
    assert labels == [
        "shop",
        *("source", "received", "flushed", "applied", "slot"),
        *("spool", "replay", "shard 0", "shard 1", "tables"),
    ]
    assert text.startswith("shop         not receiving")
    assert "\x1b" not in text


def test_overview_has_a_line_for_each_source_and_what_needs_a_hand(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    done = run_pgrepl("status", "--config", streaming.config)
    assert done.returncode == 0
    head, row = done.stdout.splitlines()
    assert head.split() == ["source", "state", "lag", "WAL", "spool", "tables"]
    assert row.startswith("shop              not receiving")
    assert row.endswith("ok")
    streaming.source.execute(f"select pg_drop_replication_slot('{streaming.slot}')")
    done = run_pgrepl("status", "--config", streaming.config)
    assert done.returncode == 20
    assert "1 problem" in done.stdout.splitlines()[1]
    assert "does not exist any more" in done.stdout
    assert "pgrepl basebackup shop --restart" in done.stdout


def test_json_says_the_same_as_the_tables(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    document = json.loads(status(streaming, "--json"))
    (source,) = document["sources"]
    received = streaming.target.value("select received_lsn::text from replication.receive_progress")
    assert (document["exit_code"], source["name"], source["problems"]) == (0, "shop", [])
    assert source["positions"]["flushed"]["lsn"] == received
    assert source["slot"]["confirmed_lsn"] == str(streaming.slot_lsn())
    assert source["spool"]["change_count"] == 1
    assert source["positions"]["applied"]["lag_seconds"] > 0


def test_exit_code_is_that_of_the_worst_problem(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    assert "more than" in status(streaming, "--max-lag", "1ms", code=70)
    streaming.source.execute(f"select pg_drop_replication_slot('{streaming.slot}')")
    text = status(streaming, "--max-lag", "1ms", code=20)
    assert "does not exist any more" in text
    assert "pgrepl basebackup shop --restart" in text


def test_answer_with_the_source_down_holds_no_secret(streaming):
    streaming.write_config(dsn="host=127.0.0.1 port=1 dbname=x user=u password=hunter2")
    text = status(streaming, code=20)
    assert "Connection refused" in text
    assert "flushed" in text
    assert "hunter2" not in text


def test_unknown_source_is_a_usage_error(streaming):
    status(streaming, "shpo", code=2)


@pytest.mark.parametrize("text", ["soon", "-1s", "60"])
def test_lag_that_is_no_duration_is_a_usage_error(streaming, text):
    status(streaming, f"--max-lag={text}", code=2)


def test_spark_is_not_imported(streaming):
    code = (
        "import sys, contextlib\n"
        "from pgrepl.cli.main import app\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    app(['status', '--config', {str(streaming.config)!r}])\n"
        "sys.exit('pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "shop" in done.stdout


def test_watching_in_json_prints_a_line_each_time(streaming):
    with subprocess.Popen(
        [*COMMAND, "status", "--config", streaming.config, "--watch", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        output = process.stdout
        assert output is not None
        first, second = (json.loads(output.readline()) for _ in range(2))
        streaming.source.execute(f"select pg_drop_replication_slot('{streaming.slot}')")
        codes = iter(lambda: json.loads(output.readline())["exit_code"], 20)
        assert all(code == 0 for code in codes)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 20
    assert first["at"] < second["at"]


def test_watching_on_a_terminal_draws_in_place(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
    with subprocess.Popen(
        [*COMMAND, "status", "--config", streaming.config, "--watch"],
        stdout=terminal,
        stderr=terminal,
        env=environment,
    ) as process:
        os.close(terminal)
        decoder = codecs.getincrementaldecoder("utf-8")()
        shown = ""

        def read_until(is_there):
            nonlocal shown
            deadline = time.monotonic() + 60
            while not is_there() and time.monotonic() < deadline:
                if select.select([main], [], [], 1)[0]:
                    shown += decoder.decode(os.read(main, 65536))

        read_until(lambda: shown.count("Ctrl-C ends") >= 3)
        before = shown
        streaming.source.execute("insert into t values (2)")
        streaming.receive_once()
        read_until(lambda: "of WAL per second" in shown)
        process.send_signal(signal.SIGINT)
        process.wait(120)
    os.close(main)
    assert "of WAL per second" not in before
    assert "of WAL per second" in shown
    # The cursor goes up to draw over the last look; the lag grows, so its line rises.
    assert "\x1b[1A" in before
    line = max(re.findall("[▁▂▃▄▅▆▇█]+", before), key=len)
    assert list(line) == sorted(line)
    assert line[0] < line[-1] == "█"
