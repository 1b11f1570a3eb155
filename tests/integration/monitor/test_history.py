"""How sources fared is written down by exactly one, thinned out, and shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from pgrepl.config.file import load_config
from pgrepl.monitor import Recorder
from pgrepl.postgres.connect import connect
from pgrepl.status import read_status
from pgrepl.store.monitoring.history import Look, read_history, record_looks, thin_out
from tests.support.program import run_pgrepl
from tests.support.running.streaming import Streaming


@pytest.fixture
def recorder():
    found = Recorder()
    yield found
    found.close()


def look(streaming: Streaming, recorder: Recorder, *, is_time: bool = True) -> None:
    """Let a recorder take a look; it is time for it, unless it says otherwise."""
    config = load_config(streaming.config)
    if is_time:
        recorder._next_at = 0.0
    recorder.take(read_status(config, list(config.sources.values())), config)


def test_look_is_written_into_an_interval_of_each_length(streaming, recorder):
    streaming.source.execute("insert into t values (1), (2)")
    streaming.receive_once()
    look(streaming, recorder)
    # Too early for another one.
    streaming.target.execute("update replication.history set spool_bytes = 7")
    look(streaming, recorder, is_time=False)
    rows = streaming.target.rows(
        "select seconds, received_changes, received_transactions, is_reachable, is_receiving,"
        " lag_bytes > 0, spool_bytes from replication.history order by seconds"
    )
    assert rows == [(s, 2, 1, True, False, True, 7) for s in (10, 60, 600)]


def test_only_one_writes_and_another_follows_it(streaming, recorder):
    second = Recorder()
    look(streaming, recorder)
    written = streaming.target.value("select max(seen_at) from replication.history")
    look(streaming, second)
    assert streaming.target.value("select max(seen_at) from replication.history") == written
    recorder.close()
    look(streaming, second)
    assert streaming.target.value("select max(seen_at) from replication.history") > written
    second.close()


def test_recorder_that_lost_its_session_goes_on(streaming, recorder):
    look(streaming, recorder)
    streaming.target.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name = 'pgrepl-history' and datname = current_database()"
    )
    before = streaming.target.value("select max(seen_at) from replication.history")
    for _ in range(2):
        look(streaming, recorder)
    assert streaming.target.value("select max(seen_at) from replication.history") > before


def test_past_is_bounded_and_peaks_stay(streaming, recorder):
    look(streaming, recorder)
    now = datetime.now(UTC)
    with connect(load_config(streaming.config).target.endpoint, "test") as connection:
        (first,) = read_history(connection, timedelta(hours=1))["shop"]
        values = {name: getattr(first, name) for name in first.__dataclass_fields__}
        for days, lag in ((20, 1.0), (2, 7.0), (2, 3.0), (0.2, 5.0)):
            values |= {"at": now - timedelta(days=days), "lag_seconds": lag}
            record_looks(connection, [Look(**values)])
        assert streaming.target.value("select count(*) from replication.history") == 12
        thin_out(connection)
        kept = streaming.target.rows(
            "select seconds, count(*), max(lag_seconds) from replication.history"
            " group by 1 order by 1"
        )
        assert kept == [(10, 1, first.lag_seconds), (60, 2, 5.0), (600, 3, 7.0)]


def test_status_shows_the_past_as_a_plot_and_as_json(streaming, recorder):
    for _ in range(3):
        look(streaming, recorder)
    streaming.target.execute(
        "update replication.history set at = at - interval '1 minute', lag_seconds = 75,"
        " seen_at = seen_at - interval '1 minute' where seconds = 10"
    )
    look(streaming, recorder)
    done = run_pgrepl("status", "--since", "30min", "--config", streaming.config)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("shop, the last 30 min 0 s\n")
    done = run_pgrepl("status", "shop", "--since", "30min", "--json", "--config", streaming.config)
    document = json.loads(done.stdout)
    assert document["resolution_seconds"] == 10
    assert document["since_seconds"] == 1800
    (point, *_) = document["sources"]["shop"]
    assert point["is_reachable"] is True
    assert datetime.fromisoformat(point["at"]) <= datetime.now(UTC)
    for wrong in ("15d", "0s", "yesterday"):
        done = run_pgrepl("status", "--since", wrong, "--config", streaming.config)
        assert done.returncode == 2, done.stdout
    assert (
        run_pgrepl("status", "shpo", "--since", "1h", "--config", streaming.config).returncode == 2
    )
