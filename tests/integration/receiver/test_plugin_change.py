"""A slot gets another plugin without a new copy: every change once, whoever is killed."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import psycopg
import pytest

from tests.support.program import COMMAND
from tests.support.waiting import wait_until

PLACES = ["published", "received", "copied", "dropped", "renamed"]


def ids(streaming):
    return [int(value) for (value,) in streaming.messages("columns -> 0 ->> 'value'")]


def formats(streaming):
    return [
        name
        for (name,) in streaming.target.rows(
            "select distinct format from replication.raw_messages order by 1"
        )
    ]


def slots(streaming):
    return streaming.source.rows(
        "select slot_name::text, plugin::text from pg_replication_slots"
        " where database = current_database()"
    )


def test_slot_goes_there_and_back(streaming):
    streaming.source.execute("insert into t values (1, 'a')")
    streaming.write_config(plugin="pgoutput")
    refused = streaming.receive("--once", code=20)
    assert 'is of plugin "wal2json", the configuration says "pgoutput"' in refused.stderr
    assert "receive shop --change-plugin" in refused.stderr
    done = streaming.receive("--change-plugin")
    assert "is decoded by pgoutput now" in done.stdout
    assert "is decoded by pgoutput already" in streaming.receive("--change-plugin").stdout
    streaming.source.execute(
        "insert into t values (2, 'b')", "create table new (id int primary key)"
    )
    streaming.source.execute("insert into new values (3)", "update new set id = 4")
    streaming.receive_once()
    assert (ids(streaming), formats(streaming)) == ([1, 2, 3, 4], ["pgoutput", "wal2json"])
    assert slots(streaming) == [(streaming.slot, "pgoutput")]
    assert streaming.target.value("select plugin from replication.source") == "pgoutput"
    streaming.write_config(plugin="wal2json")
    streaming.source.execute("insert into t values (5, 'c')")
    streaming.receive("--change-plugin")
    streaming.source.execute("insert into t values (6, 'd')")
    streaming.receive_once()
    assert ids(streaming) == [1, 2, 3, 4, 5, 6]
    assert slots(streaming) == [(streaming.slot, "wal2json")]


@pytest.mark.parametrize("place", PLACES)
def test_killed_change_is_finished_by_the_next(streaming, place):
    streaming.source.execute("insert into t values (1, 'a')")
    streaming.write_config(plugin="pgoutput")
    streaming.receive("--change-plugin", env={"PGREPL_FAILPOINT": f"plugin.{place}:kill"}, code=-9)
    streaming.source.execute("insert into t values (2, 'b')")
    if place == "dropped":
        refused = streaming.receive("--once", code=20)
        assert "If its plugin was being changed: pgrepl receive shop --change-plugin" in (
            refused.stderr.replace("\n", " ")
        )
    streaming.receive("--change-plugin")
    streaming.source.execute("insert into t values (3, 'c')")
    streaming.receive_once()
    assert ids(streaming) == [1, 2, 3]
    assert slots(streaming) == [(streaming.slot, "pgoutput")]


def test_transaction_that_was_open_before_the_publications_is_received_by_the_old_plugin(streaming):
    """What it wrote then pgoutput could not read: the slot would stop there for ever."""
    streaming.write_config(plugin="pgoutput")
    with psycopg.connect(streaming.source.dsn()) as writer:
        writer.execute("insert into t values (1, 'a')")
        changing = subprocess.Popen(
            [*COMMAND, "receive", "shop", "--config", str(streaming.config), "--change-plugin"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: streaming.source.rows("select from pg_publication"))
        writer.execute("insert into t values (2, 'b')")
    assert changing.wait(60) == 0
    streaming.source.execute("insert into t values (3, 'c')")
    streaming.receive_once()
    assert ids(streaming) == [1, 2, 3]


def test_slot_is_not_changed_under_a_receiver(streaming, tmp_path):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        # In a file of its own: the receiver would follow its own one.
        other = replace(streaming, folder=tmp_path)
        other.write_config(plugin="pgoutput")
        assert other.receive("--change-plugin", code=75)
    assert slots(streaming) == [(streaming.slot, "wal2json")]


def resyncs(streaming):
    return streaming.target.rows(
        "select table_name::text, state from replication.source_table"
        " where resync_reason is not null order by 1"
    )


def test_loss_that_the_statistics_tell_late_is_noticed(streaming):
    """Of a table without an identity wal2json tells it, but only what it decodes itself."""
    streaming.source.execute("create table keyless (id int)", "insert into keyless values (1)")
    streaming.target.execute(
        "insert into replication.source_table (source_id, schema_name, table_name, state,"
        f" start_lsn) values ({streaming.source_id}, 'public', 'keyless', 'ready', '0/1')"
    )
    streaming.write_config(plugin="pgoutput")
    streaming.receive("--change-plugin")
    streaming.write_config(plugin="wal2json")
    with streaming.source.connect() as session:
        # What it has told lately keeps it from telling what comes now.
        session.execute("insert into keyless values (2)")
        session.execute("update keyless set id = 3 where id = 2")
        streaming.receive("--change-plugin")
    assert resyncs(streaming) == [("keyless", "ready")]


def test_loss_of_a_table_that_replay_has_not_made_yet_is_noticed(streaming):
    streaming.write_config(plugin="pgoutput")
    streaming.receive("--change-plugin")
    streaming.write_config(plugin="wal2json")
    streaming.source.execute(
        "create table keyless (id int); insert into keyless values (1); update keyless set id = 2",
        "create table late (id int); insert into late values (1); update late set id = 2",
        "alter table late add primary key (id)",
        "create table unchanged (id int); insert into unchanged values (1)",
    )
    streaming.receive("--change-plugin")
    assert resyncs(streaming) == [("keyless", "pending"), ("late", "pending")]
