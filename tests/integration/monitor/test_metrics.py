"""What Prometheus scrapes, as its own parsers read it, and the probes beside it."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from pgrepl.config.file import load_config
from tests.support.observing.asking import ask, served
from tests.support.observing.looking import apply_spool
from tests.support.program import run_pgrepl
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until


def metrics(streaming: Streaming):
    with served(load_config(streaming.config)) as (url, _):
        return ask(url, "/metrics")


def trouble_of(url: str) -> str:
    trouble = ask(url, "/api/status").json["facts"]["trouble"]
    return "" if trouble is None else trouble["message"]


def test_metrics_say_the_same_as_the_tables(streaming):
    streaming.source.execute("insert into t values (1), (2)", "insert into t values (3)")
    streaming.receive_once()
    apply_spool(streaming, seq=0)
    answer = metrics(streaming)
    shop = {"source": "shop"}
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert answer.value("pgrepl_up") == 1
    assert answer.value("pgrepl_source_up", **shop) == 1
    assert answer.value("pgrepl_receiver_up", **shop) == 0
    assert answer.value("pgrepl_source_state", **shop, state="not receiving") == 1
    assert answer.value("pgrepl_source_state", **shop, state="streaming") == 0
    assert answer.value("pgrepl_transactions_received_total", **shop, kind="parallel") == 2
    assert answer.value("pgrepl_changes_received_total", **shop, kind="parallel") == 3
    assert answer.value("pgrepl_changes_received_total", **shop, kind="serial") == 0
    assert answer.value("pgrepl_spool_changes", **shop) == 3
    assert answer.value("pgrepl_spool_segments", **shop) == streaming.target.value(
        "select count(distinct seq) from replication.raw_messages"
    )
    assert answer.value("pgrepl_slot_retained_wal_bytes", **shop) > 0
    assert answer.value("pgrepl_slot_wal_status", **shop, status="reserved") == 1
    assert answer.value("pgrepl_slot_active", **shop) == 0
    assert answer.value("pgrepl_tables", **shop, state="ready") == 1
    assert answer.value("pgrepl_source_lag_seconds", **shop, step="applied") > 0
    assert answer.value("pgrepl_source_lag_bytes", **shop, step="applied") > 0
    # Without a limit on the server it is never lost.
    assert answer.value("pgrepl_slot_loss_seconds", **shop) is None


def test_serial_transaction_counts_as_one_whatever_came_before_it(streaming):
    streaming.source.execute(
        "begin; insert into t select generate_series(1, 50); truncate t; commit",
        "insert into t values (1)",
    )
    streaming.receive_once()
    answer = metrics(streaming)
    shop = {"source": "shop"}
    assert answer.value("pgrepl_transactions_received_total", **shop, kind="serial") == 1
    assert answer.value("pgrepl_transactions_received_total", **shop, kind="parallel") == 1
    assert answer.value("pgrepl_changes_received_total", **shop, kind="serial") == 51
    assert answer.value("pgrepl_changes_received_total", **shop, kind="parallel") == 1


def test_applied_batches_are_counted_with_their_durations(streaming):
    schema = f"{streaming.source.name}_public"
    streaming.target.execute(
        f"create schema {schema}",
        f"create table {schema}.t (id bigint primary key, note text)",
        "insert into replication.target_schema (source_id, source_schema, target_schema)"
        f" values ({streaming.source_id}, 'public', '{schema}')",
    )
    for number in (1, 2):
        streaming.source.execute(f"insert into t values ({number}), (-{number})")
        streaming.receive_once()
        done = run_pgrepl("replay", "--once", "--config", streaming.config)
        assert done.returncode == 0, done.stderr
    answer = metrics(streaming)
    labels = {"source": "shop", "kind": "parallel"}
    assert answer.value("pgrepl_changes_applied_total", **labels) == 4
    assert answer.value("pgrepl_batch_duration_seconds_count", **labels) == 2
    assert answer.value("pgrepl_batch_duration_seconds_bucket", **labels, le="+Inf") == 2
    assert answer.value("pgrepl_batch_duration_seconds_bucket", **labels, le="60.0") == 2
    assert 0 < (answer.value("pgrepl_batch_duration_seconds_sum", **labels) or 0) < 120


def test_both_formats_of_prometheus_can_be_parsed_and_agree(streaming):
    streaming.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason,"
        f" sqlstate) values ({streaming.source_id}, 'public', 't', 'a \"quoted\" \\ reason', 'x')"
    )
    with served(load_config(streaming.config)) as (url, _):
        plain = ask(url, "/metrics")
        accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
        opened = ask(url, "/metrics", headers={"Accept": accept})
    assert opened.headers["Content-Type"].startswith("application/openmetrics-text")
    families = list(openmetrics.text_string_to_metric_families(opened.text))
    names = {sample.name for family in families for sample in family.samples}
    assert names == {name for name, _ in plain.samples()}
    assert plain.value("pgrepl_parked_tables", source="shop") == 1
    assert plain.value("pgrepl_problems", source="shop", kind="parked") == 1


def test_slot_with_a_limit_has_a_time_to_its_loss(stream_alone):
    streaming = stream_alone({"max_slot_wal_keep_size": "64MB"})
    streaming.source.execute("insert into t select generate_series(1, 1000)")
    answer = metrics(streaming)
    rate = answer.value("pgrepl_source_wal_bytes_per_second", source="shop")
    safe = answer.value("pgrepl_slot_safe_wal_bytes", source="shop")
    assert rate > 0
    assert safe > 0
    assert answer.value("pgrepl_slot_loss_seconds", source="shop") == pytest.approx(safe / rate)
    shown = run_pgrepl("status", "--details", "--config", streaming.config).stdout
    assert " more until it is lost, " in shown
    assert " without a receiver\n" in shown
    assert " max_slot_wal_keep_size 64 MB\n" in shown


def test_scrape_does_not_wait_for_a_source_that_says_nothing(streaming):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        streaming.write_config(dsn=f"host=127.0.0.1 port={port} dbname=x connect_timeout=60")
        with served(load_config(streaming.config)) as (url, watcher):
            threads = threading.active_count()
            looks = watcher.snapshot.number
            while watcher.snapshot.number == looks:
                began_at = time.monotonic()
                answer = ask(url, "/metrics")
                assert time.monotonic() - began_at < 30  # it would be 60
            assert threading.active_count() <= threads + 1
            assert ask(url, "/readyz").status == 200
    assert answer.value("pgrepl_source_up", source="shop") == 0
    assert answer.value("pgrepl_slot_active", source="shop") is None
    assert answer.value("pgrepl_problems", source="shop", kind="source-down") == 1
    # What the target knows is told all the same.
    assert answer.value("pgrepl_spool_changes", source="shop") == 0


def test_target_that_goes_down_and_comes_back_is_told(streaming):
    config = load_config(streaming.config)
    rename = "alter schema replication rename to {}"
    with served(config) as (url, _):
        assert ask(url, "/readyz").status == 200
        streaming.target.execute(rename.format("elsewhere"), "create schema replication")
        wait_until(lambda: ask(url, "/readyz").status == 503)
        answer = ask(url, "/metrics")
        assert answer.value("pgrepl_up") == 0
        assert answer.value("pgrepl_spool_changes", source="shop") is None
        assert ask(url, "/healthz").status == 200
        # A look that the renaming met half-way has another reason.
        wait_until(lambda: "did not make" in trouble_of(url))
        # The last known facts are still there, with their age.
        wait_until(lambda: ask(url, "/api/status").json["age_seconds"] > 0)
        document = ask(url, "/api/status").json
        assert document["facts"]["status"]["sources"][0]["name"] == "shop"
        streaming.target.execute(
            "drop schema replication", "alter schema elsewhere rename to replication"
        )
        wait_until(lambda: ask(url, "/readyz").status == 200)


def test_answers_hold_no_secret(streaming):
    streaming.write_config(dsn="host=127.0.0.1 port=1 dbname=x user=u password=hunter2")
    with served(load_config(streaming.config)) as (url, _):
        assert "hunter2" not in ask(url, "/metrics").text + ask(url, "/api/status").text


def test_receiver_serves_its_own_source_and_ends_as_ever(streaming):
    with streaming.start("--monitor", "0") as receiver:
        receiver.wait_streaming()
        url = next(word[4:] for word in receiver.text.split() if word.startswith("url="))
        wait_until(lambda: ask(url, "/metrics").value("pgrepl_receiver_up", source="shop"))
        receiver.process.send_signal(signal.SIGTERM)
        assert receiver.process.wait(60) == 0, receiver.text


def test_address_that_others_reach_is_refused_without_a_token(streaming):
    for command in (("monitor", "--listen"), ("replay", "--monitor")):
        done = run_pgrepl(*command, "0.0.0.0:0", "--config", streaming.config)
        assert (done.returncode, "no token is set" in done.stderr) == (2, True), done.stderr


def test_port_in_use_is_named(streaming):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_pgrepl("monitor", "--listen", str(port), "--config", streaming.config)
    assert (done.returncode, "address already in use" in done.stderr) == (2, True), done.stderr
