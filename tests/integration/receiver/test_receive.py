"""What was committed on the source stands in the spool, in order, once."""

from __future__ import annotations

import json

import psycopg
import pytest

from pgrepl.lsn import Lsn
from pgrepl.store.spool.spool_format import CHANNEL, MORE, bucket_of
from tests.support.waiting import wait_until


def test_committed_changes_arrive_in_order(streaming):
    streaming.source.execute(
        "insert into t values (1, 'one')",
        "update t set note = 'uno' where id = 1",
        "delete from t where id = 1",
    )
    streaming.receive_once()
    assert [line["action"] for line in streaming.lines()] == ["I", "U", "D"]
    assert streaming.lines()[1]["identity"] == [{"name": "id", "value": "1"}]


def test_rolled_back_changes_and_savepoints_do_not_arrive(streaming):
    with streaming.source.connect() as connection:
        connection.autocommit = False
        connection.execute("insert into t values (1)")
        connection.execute("savepoint a")
        connection.execute("insert into t values (2)")
        connection.execute("rollback to a")
        connection.execute("insert into t values (3)")
        connection.commit()
        connection.execute("insert into t values (4)")
        connection.rollback()
    streaming.receive_once()
    assert streaming.values("t") == ["1", "3"]


def test_interleaved_transactions_arrive_whole_in_order_of_commit(streaming):
    with streaming.source.connect() as one, streaming.source.connect() as other:
        one.autocommit = other.autocommit = False
        for number in range(3):
            one.execute("insert into t values (%s)", (10 + number,))
            other.execute("insert into t values (%s)", (20 + number,))
        other.commit()
        one.commit()
    streaming.receive_once()
    assert streaming.values("t") == ["20", "21", "22", "10", "11", "12"]


def test_transaction_that_began_long_before_arrives_at_its_commit(streaming):
    with streaming.source.connect() as connection:
        connection.autocommit = False
        connection.execute("insert into t values (1)")
        streaming.source.execute("insert into t values (2)")
        streaming.receive_once()
        assert streaming.values("t") == ["2"]
        connection.commit()
    streaming.receive_once()
    assert streaming.values("t") == ["2", "1"]


def test_prepared_transaction_arrives_when_it_commits(stream_alone):
    streaming = stream_alone({"max_prepared_transactions": "5"})
    source = streaming.source
    source.execute("begin; insert into t values (1); prepare transaction 'x'")
    source.execute("insert into t values (2)")
    streaming.receive_once()
    assert streaming.values("t") == ["2"]
    source.execute("commit prepared 'x'")
    streaming.receive_once()
    assert streaming.values("t") == ["2", "1"]


def test_empty_transactions_move_the_position_but_leave_nothing(streaming):
    before = streaming.origin_lsn()
    streaming.source.execute("create table other (id int)", "grant select on other to public")
    streaming.receive_once()
    assert streaming.lines() == []
    assert streaming.origin_lsn() > before
    assert streaming.slot_lsn() == streaming.origin_lsn()


def test_second_run_adds_only_what_is_new(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    streaming.source.execute("insert into t values (2)")
    streaming.receive_once()
    streaming.receive_once()
    assert streaming.values("t") == ["1", "2"]
    seqs = streaming.target.rows("select seq from replication.raw_messages order by 1")
    assert seqs == [(1,), (2,)]


def test_seq_goes_on_after_replay_has_emptied_the_spool(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    streaming.target.execute("delete from replication.raw_messages")
    streaming.source.execute("insert into t values (2)")
    streaming.receive_once()
    assert streaming.target.value("select max(seq) from replication.raw_messages") == 2


def test_once_misses_no_commit_that_is_not_flushed_yet(streaming):
    with streaming.source.connect() as connection:
        connection.execute("set synchronous_commit = off")
        for number in range(50):
            connection.execute("insert into t values (%s)", (number,))
    streaming.receive_once()
    assert streaming.values("t") == [str(number) for number in range(50)]


def test_until_lsn_stops_before_what_commits_there(streaming):
    streaming.source.execute("insert into t values (1)")
    middle = streaming.source.value("select pg_current_wal_insert_lsn()::text")
    streaming.source.execute("insert into t values (2)")
    done = streaming.receive("--until-lsn", middle, "--json")
    assert streaming.values("t") == ["1"]
    assert json.loads(done.stdout)["transaction_count"] == 1
    assert json.loads(done.stdout)["flushed"] == middle
    assert streaming.origin_lsn() == Lsn.parse(middle)
    streaming.receive_once()
    assert streaming.values("t") == ["1", "2"]


def test_quiet_stream_commits_a_transaction_at_once(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        streaming.source.execute("insert into t values (1)")
        wait_until(lambda: streaming.values("t") == ["1"])


def test_load_gathers_many_transactions_in_one_segment(streaming):
    with streaming.source.connect() as connection, connection.pipeline():
        for number in range(2000):
            connection.execute("insert into t values (%s)", (number,))
    streaming.receive_once()
    assert streaming.values("t") == [str(number) for number in range(2000)]
    assert streaming.target.value("select count(*) from replication.raw_messages") < 50


def test_each_commit_is_notified_with_the_name_of_the_source(streaming):
    with psycopg.connect(streaming.target.dsn(), autocommit=True) as connection:
        connection.execute(f"listen {CHANNEL}".encode())
        streaming.source.execute("insert into t values (1)")
        streaming.receive_once()
        (notify,) = connection.notifies(timeout=120, stop_after=1)
    assert (notify.channel, notify.payload) == (CHANNEL, streaming.name)


def test_notification_says_whether_more_is_at_hand(streaming):
    # Several segments, by their size.
    streaming.source.execute(
        "insert into t select n, repeat(md5(n::text), 100) from generate_series(1, 4000) n"
    )
    with psycopg.connect(streaming.target.dsn(), autocommit=True) as connection:
        connection.execute(f"listen {CHANNEL}".encode())
        for number in range(3):
            streaming.source.execute(
                f"update t set note = note || {number} where id % 3 = {number}"
            )
        streaming.receive_once()
        heard = [notify.payload for notify in connection.notifies(timeout=120, stop_after=2)]
        # The server hands over what it has; the last one may come later.
        while heard[-1] != streaming.name:
            heard += [n.payload for n in connection.notifies(timeout=120, stop_after=1)]
    sizes = [int(news.removeprefix(streaming.name + MORE)) for news in heard[:-1]]
    assert min(sizes) > 1_000_000


def test_ddl_and_truncate_become_serial_segments(source, stream_from):
    source.execute(
        "create table t (id bigint primary key)",
        "create table u (id bigint primary key)",
        "create schema pgrepl",
        "create table pgrepl.ddl_log (id bigint primary key, query text)",
    )
    streaming = stream_from(source)
    source.execute(
        "insert into t values (1)",
        "begin; insert into t values (2); insert into u values (3);"
        " insert into pgrepl.ddl_log values (1, 'x'); insert into t values (4); commit",
        "insert into t values (5)",
        "truncate t, u",
        "delete from pgrepl.ddl_log",
    )
    streaming.receive_once()
    kinds = streaming.target.rows(
        "select kind, count(*), sum(change_count) from replication.raw_messages"
        " group by seq, kind order by seq"
    )
    assert [kind for kind, _, _ in kinds] == ["parallel", "serial", "parallel", "serial"]
    order = [(line["action"], line["table"]) for line in streaming.lines()]
    assert order == [
        ("I", "t"),
        *[("I", "t"), ("I", "u"), ("I", "ddl_log"), ("I", "t")],
        ("I", "t"),
        *[("T", "t"), ("T", "u")],
    ]


def test_partitions_hash_by_their_root(source, stream_from):
    source.execute(
        "create schema a",
        "create schema b",
        "create table a.root (id int, at date, primary key (id, at)) partition by range (at)",
        "create table b.leaf1 partition of a.root for values from ('2026-01-01') to ('2026-02-01')",
        "create table b.leaf2 partition of a.root for values from ('2026-02-01') to ('2026-03-01')",
    )
    streaming = stream_from(source)
    source.execute(
        "insert into a.root values (1, '2026-01-05')",
        "update a.root set at = '2026-02-05'",
    )
    streaming.receive_once()
    assert [(line["action"], line["table"]) for line in streaming.lines()] == [
        ("I", "leaf1"),
        ("D", "leaf1"),
        ("I", "leaf2"),
    ]
    buckets = streaming.target.rows("select distinct bucket from replication.raw_messages")
    assert buckets == [(bucket_of(source.name, "a", "root"),)]


def test_table_that_becomes_a_partition_changes_its_bucket_behind_the_ddl_only(source, stream_from):
    source.execute(
        "create schema pgrepl",
        "create table pgrepl.ddl_log (id bigint primary key)",
        "create table root (id int primary key) partition by range (id)",
        "create table leaf (id int primary key)",
    )
    streaming = stream_from(source)
    own, root = (bucket_of(source.name, "public", name) for name in ("leaf", "root"))
    source.execute("insert into leaf values (1)")
    streaming.receive_once()
    source.execute(
        "insert into leaf values (2)",
        "alter table root attach partition leaf for values from (0) to (100)",
    )
    streaming.receive_once()
    source.execute("begin; insert into pgrepl.ddl_log values (1); commit")
    source.execute("insert into leaf values (3)")
    streaming.receive_once()
    assert streaming.target.rows("select bucket from replication.raw_messages order by seq") == [
        (own,),
        (own,),
        (-1,),
        (root,),
    ]


def test_tables_that_are_not_selected_do_not_arrive(source, stream_from):
    source.execute(
        "create schema bi",
        "create table t (id bigint primary key)",
        "create table bi.t (id bigint primary key)",
    )
    streaming = stream_from(source, exclude=["bi.*"])
    source.execute("insert into bi.t values (1)", "insert into t values (2)", "truncate bi.t")
    streaming.receive_once()
    assert streaming.values("t") == ["2"]
    assert len(streaming.lines()) == 1


def test_names_in_any_characters_go_to_their_own_buckets(source, stream_from):
    names = ['a"b', 'a"c', "back\\", 'back\\"', "tête", 'x","table":"y', "new\nline", "ü" * 31]
    with source.connect() as connection:
        for name in names:
            quoted = psycopg.sql.Identifier(name)
            connection.execute(
                psycopg.sql.SQL("create table {} (id int primary key)").format(quoted)
            )
        streaming = stream_from(source)
        for _ in range(2):
            for name in names:
                insert = psycopg.sql.SQL("insert into {} values ((random() * 1e9)::int)")
                connection.execute(insert.format(psycopg.sql.Identifier(name)))
    streaming.receive_once()
    assert [line["table"] for line in sorted(streaming.lines(), key=lambda e: int(e["xid"]))] == [
        *names,
        *names,
    ]
    for name, bucket in streaming.target.rows(
        "select distinct table_name, bucket from replication.messages"
    ):
        assert bucket == bucket_of(source.name, "public", name)


def test_view_shows_one_change_per_row(streaming):
    streaming.source.execute("insert into t values (1, 'x'), (2, 'y')", "delete from t")
    streaming.receive_once()
    rows = streaming.target.rows(
        "select source, action, schema_name, table_name, commit_lsn < end_lsn, commit_at < now(),"
        " columns -> 0 ->> 'value', identity -> 0 ->> 'value'"
        " from replication.messages order by seq, part, number"
    )
    shared = ("public", "t", True, True)
    assert rows == [
        ("shop", "I", *shared, "1", None),
        ("shop", "I", *shared, "2", None),
        ("shop", "D", *shared, None, "1"),
        ("shop", "D", *shared, None, "2"),
    ]


def test_messages_of_other_programs_do_no_harm(streaming):
    # Bytes that are not UTF-8 and would be refused by the target.
    streaming.source.execute(
        "select pg_logical_emit_message(true, 'pgrepl', '\\xff'::bytea)",
        "select pg_logical_emit_message(false, 'pgrepl', '\\xff'::bytea)",
        "select pg_logical_emit_message(true, 'other', '\\xff'::bytea)",
        "begin; select pg_logical_emit_message(true, 'pgrepl', '\\xff'::bytea);"
        " insert into t values (1); commit",
    )
    streaming.receive_once()
    assert streaming.values("t") == ["1"]


def test_two_sources_flow_into_one_target(
    source, target, source_cluster, make_database, stream_from
):
    other = make_database(source_cluster, prefix="source")
    for database in (source, other):
        database.execute("create table t (id bigint primary key)")
    one, two = stream_from(source), stream_from(other, name="other")
    source.execute("insert into t values (1)")
    other.execute("insert into t values (2)")
    one.receive_once()
    two.receive_once()
    found = target.rows("select source, columns -> 0 ->> 'value' from replication.messages")
    assert sorted(found) == [("other", "2"), ("shop", "1")]


@pytest.mark.parametrize("argument", ["nonsense", "1/2/3"])
def test_until_lsn_must_be_an_lsn(streaming, argument):
    done = streaming.receive("--until-lsn", argument, code=2)
    assert "is not an LSN" in done.stderr
