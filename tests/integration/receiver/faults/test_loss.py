"""What the source cannot send is noticed: in the target, in the log and in the exit code."""

from __future__ import annotations

import pytest

from tests.support.machine.memory import peak_mib
from tests.support.waiting import wait_until


def resyncs(streaming):
    return streaming.target.rows(
        "select schema_name, table_name from replication.source_table"
        " where resync_reason is not null order by 1, 2"
    )


@pytest.fixture
def keyless(source, stream_from):
    source.execute(
        "create table keyless (id int)",
        "create table keyed (id int primary key)",
        "insert into keyless values (1)",
    )
    return stream_from(source)


def test_update_without_identity_marks_the_table(keyless):
    keyless.source.execute("update keyless set id = 2", "insert into keyed values (1)")
    done = keyless.receive_once(code=50)
    assert resyncs(keyless) == [("public", "keyless")]
    assert "tables that lost changes: public.keyless" in done.stderr
    assert "pgrepl resync shop" in done.stderr
    assert "table needs a resync" in done.stderr
    assert keyless.values("keyed") == ["1"]


def test_delete_without_identity_marks_the_table_also_when_nothing_else_happened(keyless):
    keyless.source.execute("delete from keyless")
    keyless.receive_once(code=50)
    assert resyncs(keyless) == [("public", "keyless")]
    assert keyless.slot_lsn() == keyless.origin_lsn()


def test_exit_code_stays_until_the_table_is_resynced(keyless):
    keyless.source.execute("update keyless set id = 2")
    keyless.receive_once(code=50)
    keyless.receive_once(code=50)
    keyless.target.execute("update replication.source_table set resync_reason = null")
    keyless.receive_once()


def test_mark_survives_a_crash_before_the_commit(keyless):
    keyless.source.execute("update keyless set id = 2")
    keyless.receive("--once", env={"PGREPL_FAILPOINT": "receiver.before_commit:kill"}, code=-9)
    assert resyncs(keyless) == []
    keyless.receive_once(code=50)
    assert resyncs(keyless) == [("public", "keyless")]


def test_table_that_no_copy_knows_is_marked_too(keyless):
    keyless.source.execute(
        'create table "new ""one"".x" (id int)',
        'insert into "new ""one"".x" values (1)',
        'update "new ""one"".x" set id = 2',
    )
    keyless.receive_once(code=50)
    assert resyncs(keyless) == [("public", 'new "one".x')]


def test_losses_of_views_and_of_tables_not_replicated_do_not_matter(source, stream_from):
    source.execute(
        "create schema bi",
        "create table bi.keyless (id int)",
        "create table base (id int primary key)",
        "insert into base values (1)",
        "create materialized view mv as select id from base",
        "create unique index on mv (id)",
    )
    streaming = stream_from(source, exclude=["bi.*"])
    source.execute(
        "insert into bi.keyless values (1)",
        "update bi.keyless set id = 2",
        "update base set id = 2",
        "refresh materialized view concurrently mv",
    )
    streaming.receive_once()
    assert resyncs(streaming) == []


@pytest.fixture
def floats(source):
    source.execute(
        "create table sure (id int primary key, f float8 not null, n numeric not null)",
        "create table unsure (id int primary key, f float4, n numeric, d float8 not null)",
    )
    return source


def test_nan_that_arrives_as_null_in_a_not_null_column_marks_the_table(
    floats, stream_from, has_text_numbers
):
    streaming = stream_from(floats)
    floats.execute(
        "insert into sure values (1, 1.5, 2.50)",
        "insert into unsure values (1, null, null, 1)",
    )
    streaming.receive_once()
    floats.execute("insert into sure values (2, 'NaN', 1)")
    streaming.receive_once(code=0 if has_text_numbers else 50)
    assert resyncs(streaming) == ([] if has_text_numbers else [("public", "sure")])


def test_text_that_looks_like_a_null_marks_nothing(source, stream_from):
    source.execute("create table sure (id int primary key, f float8 not null, t text)")
    streaming = stream_from(source)
    source.execute("""insert into sure values (1, 1, '{"name":"f","value":null}')""")
    streaming.receive_once()
    assert resyncs(streaming) == []


def test_exact_floats_arrive_as_the_source_prints_them(floats, stream_from):
    streaming = stream_from(floats, special_floats="exact")
    floats.execute(
        "insert into sure values (1, 'NaN', 'Infinity')",
        "insert into sure values (2, '-Infinity', 1.10)",
        "update sure set f = 'Infinity', n = 'NaN' where id = 2",
        # A null beside the special value: only the NOT NULL column can be the special one.
        "insert into unsure values (1, null, null, 'NaN')",
        "insert into unsure values (2, 'NaN', '-Infinity', 'Infinity')",
        "insert into unsure values (3, null, null, '-0')",
    )
    streaming.receive_once()
    found = [
        [column["value"] for column in line["columns"]]
        for line in sorted(streaming.lines(), key=lambda line: int(line["xid"]))
    ]
    assert found == [
        ["1", "NaN", "Infinity"],
        ["2", "-Infinity", "1.10"],
        ["2", "Infinity", "NaN"],
        ["1", None, None, "NaN"],
        ["2", "NaN", "-Infinity", "Infinity"],
        ["3", None, None, "-0"],
    ]
    assert resyncs(streaming) == []


def test_special_value_that_cannot_be_told_from_a_null_marks_the_table(
    floats, stream_from, has_text_numbers
):
    streaming = stream_from(floats, special_floats="exact")
    floats.execute("insert into unsure values (1, 'NaN', null, 1)")
    streaming.receive_once(code=0 if has_text_numbers else 50)
    assert resyncs(streaming) == ([] if has_text_numbers else [("public", "unsure")])


def test_special_value_in_a_column_renamed_since_is_put_nowhere_else(
    floats, stream_from, has_text_numbers
):
    streaming = stream_from(floats, special_floats="exact")
    floats.execute(
        "insert into unsure values (1, null, 'NaN', 1)",
        "alter table unsure rename n to amount",
    )
    streaming.receive_once(code=0 if has_text_numbers else 50)
    (line,) = streaming.lines()
    assert [column["value"] for column in line["columns"]][1] is None


@pytest.mark.parametrize("before", ["", "truncate young; insert into young values (0);"])
def test_nan_in_a_column_made_in_the_same_transaction_marks_the_table(
    source, stream_from, has_text_numbers, before
):
    source.execute(
        "create schema pgrepl",
        "create table pgrepl.ddl_log (id bigint primary key)",
        "create table young (id int primary key)",
    )
    streaming = stream_from(source)
    with streaming.start() as receiver:
        # Seen before, when it had no such column.
        source.execute("insert into young values (1)")
        wait_until(lambda: streaming.values("young") == ["1"])
        source.execute(
            f"begin; {before} alter table young add f float8 not null default 0;"
            " insert into pgrepl.ddl_log values (1); insert into young values (2, 'NaN'); commit"
        )
        wait_until(lambda: streaming.values("young")[-1] == "2")
        assert receiver.terminate() == 0
    assert resyncs(streaming) == ([] if has_text_numbers else [("public", "young")])


@pytest.mark.soak
def test_a_million_lost_changes_take_no_memory(keyless):
    keyless.source.execute(
        "insert into keyless select generate_series(1, 500000)", "analyze keyless"
    )
    with keyless.start(is_fresh=True) as receiver:
        receiver.wait_streaming()
        keyless.source.execute("update keyless set id = -id")
        wait_until(lambda: resyncs(keyless), timeout_s=120)
        assert peak_mib(receiver.process.pid) < 120
        assert receiver.terminate() == 0


def test_lost_change_of_a_source_without_an_encoding(source_cluster, make_database, stream_from):
    database = make_database(source_cluster, prefix="ascii")
    database.make_anew("SQL_ASCII")
    database.execute('create table "schlüssellos" (id int)')
    streaming = stream_from(database)
    database.execute('insert into "schlüssellos" values (1)', 'update "schlüssellos" set id = 2')
    done = streaming.receive_once(code=50)
    assert "tables that lost changes: public.schlüssellos" in done.stderr
