"""A source that is read through pgoutput: nothing but a publication is needed on the server."""

from __future__ import annotations

import psycopg
import pytest

from pgrepl.decoding.pgoutput.framing import unpack
from tests.support.machine.memory import peak_mib
from tests.support.messages.tuples import readable
from tests.support.waiting import wait_until


@pytest.fixture
def pgoutput(source, stream_from):
    source.execute(
        "create table t (id bigint primary key, note text)",
        "create table keyless (id int)",
        "create table whole (id int, note text); alter table whole replica identity full",
    )
    return stream_from(source, plugin="pgoutput")


def shown(streaming):
    """Return action, table, new values and identity of what is spooled."""
    rows = streaming.messages("action, table_name, columns, identity")
    return [
        (
            action,
            table,
            *(values and {each["name"]: each["value"] for each in values} for values in lists),
        )
        for action, table, *lists in rows
    ]


def test_every_kind_of_change_is_spooled_and_shown(pgoutput):
    pgoutput.source.execute(
        "insert into t values (1, 'x'), (2, null)",
        "update t set note = 'y' where id = 1",
        "update t set id = 3 where id = 2",
        "delete from t where id = 3",
        "insert into keyless values (7)",
        "insert into whole values (1, 'w'); update whole set id = 2; delete from whole",
    )
    pgoutput.receive_once()
    tables = ("t", "keyless", "whole")
    assert sorted(shown(pgoutput), key=lambda row: tables.index(row[1])) == [
        ("I", "t", {"id": "1", "note": "x"}, None),
        ("I", "t", {"id": "2", "note": None}, None),
        ("U", "t", {"id": "1", "note": "y"}, {"id": "1"}),
        ("U", "t", {"id": "3", "note": None}, {"id": "2"}),
        ("D", "t", None, {"id": "3"}),
        ("I", "keyless", {"id": "7"}, None),
        ("I", "whole", {"id": "1", "note": "w"}, None),
        ("U", "whole", {"id": "2", "note": "w"}, {"id": "1", "note": "w"}),
        ("D", "whole", None, {"id": "2", "note": "w"}),
    ]
    facts = pgoutput.messages("commit_lsn is not null, commit_at < now(), xid > 0")
    assert set(facts) == {(True, True, True)}


def resyncs(streaming):
    return streaming.target.rows(
        "select table_name::text from replication.source_table where resync_reason is not null"
    )


@pytest.mark.parametrize("statement", ["update keyless set id = 2", "delete from keyless"])
def test_change_of_a_table_without_identity_works_and_marks_the_table(pgoutput, statement):
    pgoutput.source.execute("insert into keyless values (1)", "insert into t values (1, 'x')")
    pgoutput.receive_once()
    assert resyncs(pgoutput) == []
    pgoutput.source.execute(statement, "update t set note = 'y'")
    done = pgoutput.receive_once(code=50)
    assert "tables that lost changes: public.keyless" in done.stderr
    assert resyncs(pgoutput) == [("keyless",)]


def test_tables_are_copied_again_when_the_statistics_were_reset(pgoutput):
    """What was updated before the reset is not counted, nor is what replay made since."""
    pgoutput.receive_once()
    assert (resyncs(pgoutput), dues(pgoutput)) == ([], [])
    # A session tells what it counted at its end.
    pgoutput.source.execute("insert into keyless values (1)", "update keyless set id = 2")
    counted = "select pg_stat_get_tuples_updated('keyless'::regclass)"
    wait_until(lambda: pgoutput.source.value(counted) == 1)
    pgoutput.source.execute("select pg_stat_reset()", "create table made (id int)")
    assert pgoutput.source.value(counted) == 0
    pgoutput.target.execute(
        "insert into replication.source_table (source_id, schema_name, table_name, state,"
        " start_lsn) select source_id, 'public', 'made', 'ready', '0/1' from replication.source"
    )
    pgoutput.receive_once()
    assert (resyncs(pgoutput), dues(pgoutput)) == ([], [("keyless",), ("made",)])
    # The copy begins with what is counted then, and nothing is due any more.
    pgoutput.target.execute(
        "update replication.source_table set unsent_changes = 0, unsent_since ="
        " (select counted_since from replication.source)",
        "delete from replication.resync_due",
    )
    pgoutput.receive_once()
    assert (resyncs(pgoutput), dues(pgoutput)) == ([], [])


def test_tables_are_marked_while_the_source_counts_nothing(pgoutput):
    name = pgoutput.source.name
    pgoutput.source.execute(f"alter database {name} set track_counts = off")
    pgoutput.source.execute("insert into keyless values (1)", "update keyless set id = 2")
    pgoutput.receive_once(code=50)
    assert resyncs(pgoutput) == [("keyless",)]
    pgoutput.target.execute("update replication.source_table set resync_reason = null")
    pgoutput.write_config(append_only=["public.keyless"])
    pgoutput.receive_once()
    assert resyncs(pgoutput) == []


def test_statistics_of_the_server_may_be_reset(pgoutput):
    pgoutput.receive_once()
    pgoutput.source.execute("select pg_stat_reset_shared('bgwriter')")
    pgoutput.receive_once()
    assert (resyncs(pgoutput), dues(pgoutput)) == ([], [])


def test_what_is_counted_of_another_table_of_the_name_is_no_loss(pgoutput):
    """Replay has not come to the rename yet."""
    oid = pgoutput.source.value("select 'keyless'::regclass::oid::bigint")
    pgoutput.target.execute(
        f"update replication.source_table set source_oid = {oid} where table_name = 'keyless'"
    )
    pgoutput.source.execute(
        "alter table keyless rename to older",
        "create table keyless (id int)",
        "insert into keyless values (1)",
        "update keyless set id = 2",
    )
    counted = "select pg_stat_get_tuples_updated('keyless'::regclass)"
    wait_until(lambda: pgoutput.source.value(counted) == 1)
    pgoutput.receive_once()
    assert resyncs(pgoutput) == []
    pgoutput.source.execute(
        "delete from older", "insert into older values (1)", "delete from older"
    )
    pgoutput.receive_once(code=50)
    assert resyncs(pgoutput) == [("keyless",)]


def test_table_that_is_not_published_is_marked(pgoutput):
    pgoutput.source.execute(f"alter publication {pgoutput.slot} drop table t")
    pgoutput.receive_once(code=50)
    assert resyncs(pgoutput) == [("t",)]


def dues(streaming):
    return streaming.target.rows("select table_name::text from replication.resync_due order by 1")


def test_publication_that_was_dropped_is_told_with_what_to_do(pgoutput):
    pgoutput.source.execute(f"drop publication {pgoutput.slot}", "insert into t values (1, 'x')")
    done = pgoutput.receive_once(code=20)
    said = " ".join(done.stderr.split())
    assert f'publication "{pgoutput.slot}" does not exist' in said
    assert "basebackup shop --restart" in said


def test_table_that_was_not_published_for_a_while_is_copied_again(pgoutput):
    """It is published again before anybody looked, and only its notes on the source tell."""
    pgoutput.source.execute(
        "insert into t values (1, 'x')",
        "alter table t drop constraint t_pkey",
        "update t set note = 'lost'",
        "alter table t add primary key (id)",
        "begin; update keyless set id = 2; alter table keyless add primary key (id); commit",
        "alter table whole add more int",
    )
    pgoutput.receive_once()
    assert (dues(pgoutput), resyncs(pgoutput)) == ([("keyless",), ("t",)], [])
    # A copy that began after that holds it.
    snapshot = pgoutput.source.value("select pg_current_snapshot()::text")
    pgoutput.target.execute(
        "delete from replication.resync_due",
        f"update replication.source_table set start_snapshot = '{snapshot}'",
    )
    pgoutput.receive_once()
    assert dues(pgoutput) == []


def test_transaction_that_a_copy_does_not_see_makes_the_table_due(pgoutput):
    with psycopg.connect(pgoutput.source.dsn()) as migration:
        migration.execute("alter table t drop constraint t_pkey")
        migration.execute("alter table t add primary key (id)")
        snapshot = pgoutput.source.value("select pg_current_snapshot()::text")
        lsn = pgoutput.source.value("select pg_current_wal_insert_lsn()::text")
    pgoutput.target.execute(
        f"update replication.source_table set start_lsn = '{lsn}', start_snapshot = '{snapshot}'"
    )
    pgoutput.receive_once()
    assert dues(pgoutput) == [("t",)]


def test_what_no_publication_sends_moves_the_position(pgoutput):
    """An empty transaction is not sent; a keepalive says how far the source is."""
    before = pgoutput.origin_lsn()
    pgoutput.source.execute("create unlogged table u (id int)", "insert into u values (1)")
    pgoutput.source.execute("select pg_logical_emit_message(true, 'other', repeat('x', 100000))")
    pgoutput.receive_once()
    assert pgoutput.origin_lsn() > before
    assert pgoutput.slot_lsn() == pgoutput.origin_lsn()


def test_alter_in_a_transaction_changes_the_description_in_its_middle(pgoutput):
    pgoutput.source.execute(
        "begin; insert into t values (1, 'a'); alter table t add more int default 5;"
        " insert into t values (2, 'b', 6); alter table t drop note;"
        " insert into t values (3, 7); commit",
        "truncate keyless, whole restart identity",
    )
    pgoutput.receive_once()
    found = shown(pgoutput)
    assert found[:3] == [
        ("I", "t", {"id": "1", "note": "a"}, None),
        ("I", "t", {"id": "2", "note": "b", "more": "6"}, None),
        ("I", "t", {"id": "3", "more": "7"}, None),
    ]
    assert sorted(found[3:5]) == [("T", "keyless", None, None), ("T", "whole", None, None)]
    for (payload,) in pgoutput.target.rows("select payload from replication.raw_messages"):
        readable(unpack(payload))


def test_bytes_of_any_encoding_arrive_as_they_are(source_cluster, make_database, stream_from):
    database = make_database(source_cluster, prefix="ascii")
    database.make_anew("SQL_ASCII")
    database.execute("create table t (id int primary key, note text)")
    streaming = stream_from(database, plugin="pgoutput")
    database.execute(
        "insert into t values (1, 'before')",
        r"insert into t values (2, E'\xe9 \"\\ \n \x01')",
        "insert into t values (3, 'after ü')",
    )
    streaming.receive_once()
    assert [row[0][1]["value"] for row in streaming.messages("columns")] == [
        "before",
        '\\351 "\\ \n \x01',
        "after ü",
    ]
    ((payload,),) = streaming.target.rows("select payload from replication.raw_messages")
    assert b'\xe9 "\\ \n \x01' in payload


def test_text_of_another_encoding_is_not_converted(source_cluster, make_database, stream_from):
    database = make_database(source_cluster, prefix="latin")
    database.make_anew("LATIN1")
    with database.connect(client_encoding="UTF8") as connection:
        connection.execute("create table tête (id int primary key, note text)")
        streaming = stream_from(database, plugin="pgoutput")
        connection.execute("insert into tête values (1, 'élan')")
    streaming.receive_once()
    ((payload,),) = streaming.target.rows("select payload from replication.raw_messages")
    assert b"\xe9lan" in payload
    assert streaming.messages("table_name, columns -> 1 ->> 'value'") == [("tête", "élan")]


def test_big_transaction_goes_through_in_bounded_memory(pgoutput):
    pgoutput.source.execute(
        "begin; insert into t select g, repeat(md5(g::text), 30) from generate_series(1, 150000) g;"
        " truncate keyless; commit"
    )
    with pgoutput.start(is_fresh=True) as receiver:
        spooled = "select from replication.raw_messages where is_last"
        wait_until(lambda: pgoutput.target.rows(spooled), timeout_s=120)
        assert peak_mib(receiver.process.pid) < 350
    count, parts, ends = pgoutput.target.rows(
        "select sum(change_count), count(*) > 1, count(*) filter (where is_last)"
        " from replication.raw_messages"
    )[0]
    assert (count, parts, ends) == (150001, True, 1)


@pytest.mark.parametrize("place", ["before_commit", "after_feedback"])
def test_killed_receiver_loses_nothing_and_repeats_nothing(pgoutput, place):
    pgoutput.source.execute("insert into t select g, 'x' from generate_series(1, 50) g")
    pgoutput.receive("--once", env={"PGREPL_FAILPOINT": f"receiver.{place}:kill"}, code=-9)
    pgoutput.source.execute("insert into t values (51, 'y')")
    pgoutput.receive_once()
    assert [row[2]["id"] for row in shown(pgoutput)] == [str(n) for n in range(1, 52)]
