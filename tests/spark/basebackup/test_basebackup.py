"""Copies of real databases, exact while writers run."""

from __future__ import annotations

import pytest

from pgrepl.basebackup.rows import parts
from pgrepl.catalog.tables import read_tables
from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Rules
from pgrepl.errors import AlreadyRunning, SourceError, TargetError
from pgrepl.postgres.connect import connect
from tests.support.running.copying import (
    Recorder,
    copy,
    has_slot,
    make_objects,
    slot_of,
    state_of,
    structure,
)
from tests.support.running.replaying import checksums, replay_slot
from tests.support.workloads.workload import make_tables, writers

pytestmark = pytest.mark.usefixtures("one_spark_session")

MATRIX_SCHEMAS = ("shop", "kit", 'Odd.Schema "q"')


def assert_equal_after_replay(source, target) -> int:
    schema = f"{source.name}_app"
    skipped = replay_slot(source, target, slot_of(source), {"app": schema})
    assert checksums(target, schema) == checksums(source, "app")
    return skipped


def foreign_keys_are_valid(target, source):
    return target.rows(
        "select distinct convalidated from pg_constraint where contype = 'f'"
        f" and connamespace = '{source.name}_app'::regnamespace"
    )


def test_copy_and_stream_together_are_the_source_while_writers_run(source, target, monkeypatch):
    monkeypatch.setattr(parts, "_LEAST_BYTES", 64 * 1024)
    make_tables(source)
    with writers(source):
        report = copy(target, source)
    assert report.outcome == "copied"
    assert state_of(target, source) == "streaming"
    moved = target.value(
        f"select remote_lsn::text from pg_replication_origin_status where external_id ="
        f" '{slot_of(source)}'"
    )
    assert moved == str(report.consistent_point)
    assert assert_equal_after_replay(source, target) == 0
    assert target.value("select bool_and(start_snapshot is null) from replication.source_table")
    rows = {table.table_name: table.row_count for table in report.tables}
    assert rows["accounts"] >= 2000
    assert target.value("select count(*) from replication.copy_part") == 0
    assert foreign_keys_are_valid(target, source) == [(True,)]


def test_copy_equals_the_source_at_the_slots_own_snapshot_while_writers_run(source, target):
    make_tables(source)
    expected = []

    def look() -> None:
        snapshot = source.value("select pg_ls_dir('pg_snapshots')")
        expected.append(checksums(source, "app", snapshot))

    with writers(source):
        copy(target, source, Recorder({"data": look}))
    assert [checksums(target, f"{source.name}_app")] == expected
    assert checksums(source, "app") != expected[0]


def test_every_kind_of_object_and_type_arrives(source, target):
    make_objects(source, target)
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        plain = {str(table) for table in read_tables(connection, Rules()) if table.is_plain}
    assert "shop.plain" in plain
    assert "shop.everything" not in plain
    report = copy(target, source, trust_code=True)
    prefix = f"{source.name}_"
    for schema in MATRIX_SCHEMAS:
        expected = checksums(source, schema)
        expected.pop("scratch", None)
        assert checksums(target, prefix + schema) == expected
    there = structure(source, MATRIX_SCHEMAS)
    here = structure(target, MATRIX_SCHEMAS, prefix)
    moved = {
        tuple(text.replace("extensions.hstore", "public.hstore") for text in row) for row in here
    }
    assert moved - there == set()
    assert there - moved == set()
    left_out = {(item.kind, item.name) for item in report.left_out}
    assert {
        ("trigger", "touch of shop.everything"),
        ("policy", "mine of shop.no_key"),
        ("rule", "quiet of shop.by_index"),
        ("view", "shop.summary"),
        ("materialized view", "shop.stored_summary"),
        ("unlogged table", "shop.scratch"),
        ("index", "shop.everything_plain"),
        ("privileges", "on shop.everything"),
        ("function", "shop.touch()"),
        ("function", "kit.is_positive(text)"),
        ("renaming", "plpgsql body of shop.next_code(text)"),
    } <= left_out


def test_all_indexes_come_along_when_asked_for(source, target):
    source.execute(
        "create table t (id int primary key, a int, b text)",
        "create index t_a on t (a)",
        "comment on index t_a is 'plain'",
        "create index t_b on t (lower(b)) where a > 0",
        "alter table t cluster on t_a",
        "alter index t_b alter column 1 set statistics 500",
    )
    copy(target, source, with_all_indexes=True)
    prefix = f"{source.name}_"
    query = (
        "select indexrelid::regclass::text, indisclustered, pg_get_indexdef(indexrelid),"
        " obj_description(indexrelid) from pg_index"
        " where indrelid = '{}public.t'::regclass order by 1"
    )
    with target.connect(options="-c search_path=pg_catalog") as connection:
        rows = connection.execute(query.format(prefix).encode()).fetchall()
    here = [tuple(str(value).replace(prefix, "") for value in row) for row in rows]
    with source.connect(options="-c search_path=pg_catalog") as connection:
        there = [tuple(map(str, row)) for row in connection.execute(query.format("").encode())]
    assert here == there


def test_two_sources_with_the_same_table_names_flow_into_one_target(
    source_cluster, make_database, target
):
    sources = [make_database(source_cluster, prefix="twin") for _ in range(2)]
    for number, source in enumerate(sources):
        make_tables(source)
        source.execute(f"update app.accounts set note = 'twin {number}'")
        copy(target, source)
    for source in sources:
        assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_second_run_does_nothing_and_restart_copies_anew(source, target):
    make_tables(source)
    first = copy(target, source)
    source.execute("delete from app.moves")
    assert copy(target, source).outcome == "already copied"
    again = copy(target, source, is_restart=True)
    assert again.outcome == "copied"
    assert first.consistent_point is not None
    assert again.consistent_point is not None
    assert again.consistent_point > first.consistent_point
    assert checksums(target, f"{source.name}_app")["moves_0"] == (0, "")


def test_restart_spares_what_others_built_on_the_copy(source, target):
    make_tables(source)
    copy(target, source)
    target.execute(f"create view mine as select * from {source.name}_app.accounts")
    with pytest.raises(TargetError, match=r"depend on it: public\.mine"):
        copy(target, source, is_restart=True)
    assert target.value("select count(*) from mine") == 2000
    assert has_slot(source)


def test_table_that_fails_does_not_keep_the_others_and_the_next_run_copies_it(
    source, target, monkeypatch
):
    # Several parts of the table are copied before one fails: the one with the last row. Rows of
    # writers may be in any part, since vacuum lets them have room where others were updated.
    monkeypatch.setattr(parts, "_LEAST_BYTES", 32 * 1024)
    make_tables(source)
    copied = f"{source.name}_app.accounts"
    spoil = Recorder(
        {"data": lambda: target.execute(f"alter table {copied} add check (id <> 2000)")}
    )
    with writers(source):
        with pytest.raises(TargetError, match=r"cannot write the copy of app\.accounts") as caught:
            copy(target, source, spoil)
        assert "note" not in str(caught.value)
        states = dict(target.rows("select table_name, state from replication.source_table"))
        assert states.pop("accounts") == "copying"
        assert set(states.values()) == {"ready"}
        assert target.value(f"select count(*) from {copied}") > 0
        assert state_of(target, source) == "copying"
        target.execute(f"alter table {copied} drop constraint accounts_id_check")
        report = copy(target, source)
    assert report.outcome == "resumed"
    assert assert_equal_after_replay(source, target) > 0
    # The two ends were copied at different moments.
    assert [item.name for item in report.left_out if item.kind == "validity"] == ["app.history"]
    assert foreign_keys_are_valid(target, source) == [(False,)]


def test_lost_keeper_is_an_error_of_the_source_and_the_next_run_goes_on(source, target):
    make_tables(source)

    def cut() -> None:
        source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname ="
            " current_database() and application_name = 'pgrepl-basebackup'"
            " and state = 'idle in transaction'"
        )

    with writers(source):
        with pytest.raises(SourceError):
            copy(target, source, Recorder({"data": cut}))
        assert copy(target, source).outcome == "resumed"
    assert_equal_after_replay(source, target)


def test_big_table_is_cut_into_parts_that_hold_every_row_once(source, target, monkeypatch):
    monkeypatch.setattr(parts, "_LEAST_BYTES", 128 * 1024)
    source.execute(
        "create table big as select g as id, repeat('x', 100) as pad"
        " from generate_series(1, 50000) g",
        "alter table big add primary key (id)",
        "delete from big where id % 3 = 0",
    )
    counts: list[int] = []

    def count_parts() -> None:
        counts.append(target.value("select count(*) from replication.copy_part"))

    copy(target, source, Recorder({"keys": count_parts}))
    assert counts == [8]
    assert checksums(target, f"{source.name}_public") == checksums(source, "public")


def test_another_run_at_the_same_time_is_refused(source, target):
    make_tables(source)

    def second() -> None:
        with pytest.raises(AlreadyRunning) as caught:
            copy(target, source)
        assert caught.value.exit_code == 75

    assert copy(target, source, Recorder({"data": second})).outcome == "copied"


def test_slot_that_the_target_does_not_know_is_left_alone(source, target):
    make_tables(source)
    source.execute(f"select pg_create_logical_replication_slot('{slot_of(source)}', 'wal2json')")
    with pytest.raises(SourceError, match="this target did not make it"):
        copy(target, source)
    assert has_slot(source)
    assert state_of(target, source) is None


def test_tables_option_narrows_what_is_copied(source, target):
    make_tables(source)
    report = copy(target, source, tables=TableSelection.of(["app.*"], ["app.accounts"]))
    assert {t.table_name for t in report.tables} == {"history", "moves", "moves_0", "moves_1"}
    assert ("foreign key", "history_account_fkey of app.history") in {
        (item.kind, item.name) for item in report.left_out
    }
