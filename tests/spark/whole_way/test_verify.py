"""Comparisons of real databases: every planted difference is found, and nothing else."""

from __future__ import annotations

import json
import threading

import pytest
from typer.testing import CliRunner

from pgrepl.cli.main import app
from pgrepl.config.naming import TableSelection
from pgrepl.errors import TargetError, UsageError
from pgrepl.postgres.advisory_locks import copy_lock, take_lock
from pgrepl.verify import standstill
from pgrepl.verify.rows import plan
from tests.support.database import Database
from tests.support.observing.verifying import Quiet, following, found, set_applied, verify
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import copy, make_objects
from tests.support.workloads.workload import make_tables, writers

pytestmark = pytest.mark.usefixtures("one_spark_session")

ROWS = 400
COLUMNS = {
    "note": "text",
    "code": "varchar(40)",
    "padded": "char(6)",
    "amount": "numeric",
    "small": "real",
    "big": "double precision",
    "whole": "bigint",
    "truth": "boolean",
    "at": "timestamptz",
    "day": "date",
    "span": "interval",
    "bytes": "bytea",
    "doc": "json",
    "docb": "jsonb",
    "uid": "uuid",
    "ints": "integer[]",
    "words": "text[]",
    "net": "inet",
    "flags": "bit varying",
    "spot": "point",
}
#: Column, value on the source, value on the target: as like one another as can be.
PAIRS = [
    ("note", "null", "''"),
    ("note", "''", "null"),
    ("note", "'a'", "'a '"),
    ("note", "' a'", "'a'"),
    ("note", "'a'", "'A'"),
    ("note", "'a'", "E'a\\n'"),
    ("note", "E'a\\tb'", "'a    b'"),
    ("note", "'null'", "null"),
    ("note", "U&'\\00E9'", "U&'e\\0301'"),
    ("note", "'(a,b)'", "'(a,\"b\")'"),
    ("note", "repeat('x', 100000)", "repeat('x', 99999) || 'y'"),
    ("note", "'0'", "'O'"),
    ("code", "'a,b'", "'a\"\",b'"),
    ("code", "''", "' '"),
    ("padded", "'a'", "'b'"),
    ("padded", "''", "null"),
    ("amount", "1.0", "1.00"),
    ("amount", "'NaN'", "null"),
    ("amount", "'Infinity'", "'NaN'"),
    ("amount", "12345678901234567890123456789.1", "12345678901234567890123456789.2"),
    ("amount", "0.1", "0.10000000000000000000000000001"),
    ("small", "'0.1'::real", "'0.10000001'::real"),
    ("small", "'NaN'", "'Infinity'"),
    ("big", "0.1::float8", "'0.10000000000000002'::float8"),
    ("big", "'-0'::float8", "'0'::float8"),
    ("big", "'5e-324'::float8", "0"),
    ("whole", "9007199254740993", "9007199254740992"),
    ("whole", "0", "null"),
    ("truth", "false", "null"),
    ("truth", "false", "true"),
    ("at", "'2026-01-01 00:00:00.000001+00'", "'2026-01-01 00:00:00+00'"),
    ("at", "'infinity'", "null"),
    ("at", "'2026-01-01 00:00+01'", "'2026-01-01 00:00+00'"),
    ("day", "'2026-02-28'", "'2026-03-01'"),
    ("day", "'0001-01-01 BC'", "'0001-01-01'"),
    ("span", "'1 day'", "'24 hours'"),
    ("span", "'1 mon'", "'30 days'"),
    ("bytes", "'\\x00'", "'\\x'"),
    ("bytes", "'\\x'", "null"),
    ("bytes", "'\\x0001'", "'\\x0101'"),
    ("doc", "'{\"a\":1}'", "'{\"a\": 1}'"),
    ("doc", "'null'", "null"),
    ("docb", "'{\"a\":1}'", "'{\"a\":1.0}'"),
    ("docb", "'[]'", "'{}'"),
    ("docb", "'null'", "null"),
    ("uid", "'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"),
    ("ints", "'{}'", "null"),
    ("ints", "'{null}'", "'{}'"),
    ("ints", "'{1,2}'", "'{2,1}'"),
    ("ints", "'[0:1]={1,2}'", "'{1,2}'"),
    ("words", "'{\"null\"}'", "'{null}'"),
    ("words", "'{\"\"}'", "'{}'"),
    ("words", "'{\"a,b\"}'", "'{a,b}'"),
    ("net", "'10.0.0.1'", "'10.0.0.1/31'"),
    ("flags", "B'1'", "B'10'"),
    ("spot", "'(0,0)'", "'(0,1e-300)'"),
]
#: One key of each way to tell rows apart.
SHAPES = {
    "by_number": "id integer, primary key (id)",
    "by_pair": "id integer, part integer default 1, primary key (part, id)",
    "by_text": "id text primary key",
    "by_uuid": "id uuid primary key",
    "by_index": "id numeric not null, unique (id)",
}
KEYS = {
    "by_number": "{}",
    "by_pair": "{}",
    "by_text": "'Key ' || {}",
    "by_uuid": "('00000000-0000-0000-0000-' || lpad(({})::text, 12, '0'))::uuid",
    "by_index": "{} + 0.5",
}


def key_text(shape: str, number: int) -> tuple[str, ...]:
    texts = {
        "by_number": (str(number),),
        "by_pair": ("1", str(number)),
        "by_text": (f"Key {number}",),
        "by_uuid": (f"00000000-0000-0000-0000-{number:012}",),
        "by_index": (f"{number}.5",),
    }
    return texts[shape]


def make_shapes(source) -> None:
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    source.execute("create schema app")
    for shape, head in SHAPES.items():
        key = KEYS[shape].format("g")
        source.execute(
            f"create table app.{shape} ({columns}, {head})",
            f"insert into app.{shape} (id, note, amount) select {key}, 'note ' || g, g"
            f" from generate_series(1, {ROWS}) g",
        )
    source.execute(
        "alter table app.by_index replica identity using index by_index_id_key",
        "analyze",
    )


def plant(source, target, shape: str) -> set[tuple[str, str, tuple[str, ...]]]:
    """Plant differences of every kind into one table, and return what must be found."""
    expected = set()
    there = f"{source.name}_app.{shape}"
    for number, (column, here, copied) in enumerate(PAIRS, 1):
        key = KEYS[shape].format(number * 3)
        source.execute(f'update app.{shape} set "{column}" = {here} where id = {key}')
        # What replication would have brought, and then what it should not have.
        target.execute(f'update {there} set "{column}" = {copied} where id = {key}')
        expected.add((f"app.{shape}", "changed", key_text(shape, number * 3)))
    for number in (1, 2, 200, ROWS):
        target.execute(f"delete from {there} where id = {KEYS[shape].format(number)}")
        expected.add((f"app.{shape}", "missing", key_text(shape, number)))
    for number in (0, 9999):
        target.execute(f"insert into {there} (id) values ({KEYS[shape].format(number)})")
        expected.add((f"app.{shape}", "extra", key_text(shape, number)))
    return expected


def test_hundreds_of_planted_differences_are_found_and_nothing_else(source, target, monkeypatch):
    monkeypatch.setattr(plan, "ROWS_PER_PIECE", 64)
    make_shapes(source)
    copy(target, source)
    set_applied(target, source)
    clean = verify(target, source)
    assert found(clean) == set()
    assert not clean.has_differences
    assert {table.source_rows for table in clean.tables} == {ROWS}
    assert {table.name: table.piece_count for table in clean.tables} == {
        "app.by_index": 7,
        "app.by_number": 7,
        "app.by_pair": 7,
        "app.by_text": 1,
        "app.by_uuid": 7,
    }
    expected = set().union(*(plant(source, target, shape) for shape in SHAPES))
    assert len(expected) == 5 * (len(PAIRS) + 6)
    report = verify(target, source)
    assert found(report) == expected
    columns = {
        (difference.key["id"], tuple(difference.columns))
        for table in report.tables
        if table.name == "app.by_number"
        for difference in table.differences
        if difference.kind == "changed"
    }
    assert columns == {(str(n * 3), (column,)) for n, (column, _, _) in enumerate(PAIRS, 1)}


def test_every_kind_of_type_compares_equal_to_its_copy(source, target):
    make_objects(source, target)
    copy(target, source)
    set_applied(target, source)
    report = verify(target, source)
    assert (found(report), report.structure) == (set(), [])
    assert not report.has_differences


@pytest.fixture
def latin(source_cluster, source):
    """Make a database in another encoding and collation than the target's."""
    database = Database(source_cluster, f"latin_{source.name}")
    source.execute(
        f"create database {database.name} template template0 encoding 'LATIN1' locale 'C'"
    )
    yield database
    database.drop()


def test_servers_that_hash_or_order_differently_compare_equal(latin, target):
    latin.execute(
        "create table t (id text primary key, note text)",
        "insert into t select U&'\\00E9' || g, U&'\\00FC' || g from generate_series(1, 300) g",
    )
    copy(target, latin)
    set_applied(target, latin)
    assert found(verify(target, latin)) == set()
    target.execute(f"update {latin.name}_public.t set note = 'u' where id = U&'\\00E9' || 7")
    assert found(verify(target, latin)) == {("public.t", "changed", ("\u00e97",))}


def test_rows_without_a_key_are_compared_as_a_multiset(source, target):
    source.execute(
        "create table t (a integer, b text)",
        "alter table t replica identity full",
        "insert into t select g % 5, null from generate_series(1, 1000) g",
        "insert into t values (7, ''), (8, 'x'), (8, 'x')",
    )
    copy(target, source)
    set_applied(target, source)
    assert found(verify(target, source)) == set()
    there = f"{source.name}_public.t"
    # Two rows gone and two others twice: the count is the same, and an exclusive or would be too.
    target.execute(
        f"delete from {there} where a = 8",
        f"insert into {there} values (9, 'y'), (9, 'y')",
        f"update {there} set b = null where a = 7",
    )
    (table,) = verify(target, source, with_rows=True).tables
    assert {
        (d.kind, d.count, tuple((d.source_row or d.target_row or {}).values()))
        for d in table.differences
    } == {
        ("missing", 2, ("8", "x")),
        ("extra", 2, ("9", "y")),
        ("missing", 1, ("7", "")),
        ("extra", 1, ("7", None)),
    }
    assert "no key" in (table.note or "")


@pytest.mark.soak
def test_nothing_is_found_under_load_and_what_is_planted_then_is(source, target, monkeypatch):
    monkeypatch.setattr(plan, "ROWS_PER_PIECE", 100)
    make_tables(source)
    copy(target, source)
    there = f"{source.name}_app"
    schemas = {"app": there}
    with writers(source, pause_s=0.02), following(source, target, schemas):
        for _ in range(3):
            report = verify(target, source)
            assert found(report) == set()
            assert report.error is None
            assert not report.has_differences
        # Rows that the writers do not touch again.
        target.execute(
            f"insert into {there}.accounts values (-5, 0, 'extra')",
            f"update {there}.accounts set note = 'planted' where id = 10010",
            f"delete from {there}.accounts where id = 10011",
        )
        report = verify(target, source)
    assert found(report) == {
        ("app.accounts", "extra", ("-5",)),
        ("app.accounts", "changed", ("10010",)),
        ("app.accounts", "missing", ("10011",)),
    }


def test_rows_that_are_on_their_way_are_no_differences(source, target):
    make_tables(source)
    copy(target, source)
    source.execute(
        "update app.accounts set balance = 0 where id < 50",
        "delete from app.moves",
        "insert into app.accounts select g, 0, 'late' from generate_series(20001, 22000) g",
    )
    begin = threading.Event()
    # They arrive while verify waits for them.
    arrive = Quiet({"second look": begin.set})
    with following(source, target, {"app": f"{source.name}_app"}, begin):
        report = verify(target, source, arrive)
    assert (found(report), report.error, report.has_differences) == (set(), None, False)
    # More of them than are looked at one by one: the range is compared again.
    assert arrive.shown[1:] == [(1, 1, 4000)]


def test_received_position_counts_when_nothing_is_left_to_apply(source, target):
    make_tables(source)
    copy(target, source)
    target.execute(
        "insert into replication.receive_progress (source_id, last_seq, received_lsn)"
        " select source_id, 3, 'FFFFFFFF/0' from replication.source",
        f"delete from {source.name}_app.history where id = 5",
    )
    assert found(verify(target, source)) == {("app.history", "missing", ("5",))}
    target.execute(
        "insert into replication.raw_messages select source_id, 3, 0, 0, 'parallel', '0/1', '0/2',"
        " now(), now(), 1, '{}', 2, true, 'wal2json', 'UTF8' from replication.source"
    )
    report = verify(target, source, patience_s=0.2)
    assert (found(report), report.has_differences) == (set(), False)
    assert isinstance(report.error, TargetError)
    (history,) = (table for table in report.tables if table.name == "app.history")
    assert history.unsettled_count == 1


def test_empty_target_table_is_reported_without_holding_all_of_it(source, target):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    target.execute(f"truncate {source.name}_app.accounts cascade")
    report = verify(target, source, tables=TableSelection.of(["app.accounts"]))
    (table,) = report.tables
    assert table.has_more
    assert len(table.differences) == 1000
    assert {difference.kind for difference in table.differences} == {"missing"}


def test_structure_and_sequences_are_compared(source, target):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    there = f"{source.name}_app"
    source.execute("create table app.newer (id int primary key)")
    target.execute(
        f"alter table {there}.accounts alter column balance drop not null, add column more int",
        f"alter table {there}.history drop constraint history_pkey",
        f"alter sequence {there}.history_id_seq increment 7",
        f"create table {there}.stranger (id int)",
    )
    report = verify(target, source)
    assert {(d.table, d.what) for d in report.structure} == {
        ("app.accounts", "not null of column balance"),
        ("app.accounts", "column more"),
        ("app.history", "primary key"),
        ("app.newer", "table"),
        ("app.stranger", "table"),
    }
    assert [(s.name, s.what) for s in report.sequences] == [("app.history_id_seq", "increment")]
    assert found(report) == set()


def test_sequence_behind_is_told_and_is_no_difference(source, target):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    source.execute("select nextval('app.history_id_seq')")
    report = verify(target, source)
    assert [(s.what, s.is_difference) for s in report.sequences] == [("value", False)]
    assert not report.has_differences


def test_only_a_table_that_somebody_copies_may_go_uncompared(source, target):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    target.execute(
        "update replication.source_table set state = 'copying' where table_name = 'history'",
        "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
        " select source_id, 'app', 'accounts', 'unique_violation' from replication.source",
        f"delete from {source.name}_app.history",
        f"delete from {source.name}_app.accounts where id = 77",
    )
    with target.connect() as copier:
        take_lock(copier, copy_lock(source.name))
        report = verify(target, source)
    notes = {table.name: table.note for table in report.tables if table.note}
    assert "copy is not finished" in notes["app.history"]
    assert "parked: unique_violation" in notes["app.accounts"]
    assert found(report) == {("app.accounts", "missing", ("77",))}
    assert report.uncompared == []
    assert verify(target, source).uncompared == ["app.history"]


def test_table_that_waits_for_its_copy_fails_the_program(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    target.execute(
        "update replication.source_table set state = 'pending', resync_reason = 'by DDL'"
        " where table_name = 'history'"
    )
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    done = run("verify", source.name, "--config", config)
    assert done.exit_code == 60, done.stderr
    assert "note: app.history: not compared: it waits for its copy: by DDL" in done.stdout
    assert "1 table not compared" in done.stdout
    assert "could not be compared: app.history" in done.stderr


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_differences_are_certain_without_services_where_nothing_waits(
    source, target, plugin, monkeypatch
):
    make_tables(source)
    copy(target, source, plugin=plugin)
    there = f"{source.name}_app"
    target.execute(f"update {there}.accounts set note = 'other' where id = 77")
    # WAL that holds nothing for the target.
    source.execute("select pg_logical_emit_message(false, 'x', 'y')", "vacuum pg_catalog.pg_class")
    report = verify(target, source, patience_s=0.1)
    assert (found(report), report.error) == ({("app.accounts", "changed", ("77",))}, None)
    # Of a table with changes in the slot nothing is certain, of the others it is.
    source.execute("delete from app.history where id = 5")
    report = verify(target, source, patience_s=0.1)
    assert found(report) == {("app.accounts", "changed", ("77",))}
    assert isinstance(report.error, TargetError)
    (history,) = (table for table in report.tables if table.name == "app.history")
    assert (history.unsettled_count, history.unsettled_piece_count) == (1, 0)
    # What is said of tables and transactions counts too, of what may be looked at.
    monkeypatch.setattr(standstill, "_MOST_CHANGES", 3)
    assert found(verify(target, source, patience_s=0.1)) == set()


def test_sample_compares_a_share_of_each_table(source, target, monkeypatch):
    monkeypatch.setattr(plan, "ROWS_PER_PIECE", 20)
    make_shapes(source)
    copy(target, source)
    set_applied(target, source)
    report = verify(target, source, sample=0.1)
    compared = {table.name: (table.compared_count, table.source_rows) for table in report.tables}
    # After the last row there is one range more, without rows.
    assert compared["app.by_number"] in ((3, 60), (3, 40))
    assert 0 < compared["app.by_text"][1] < ROWS
    # Sooner or later each range is looked at.
    target.execute(f"delete from {source.name}_app.by_number where id = 7")
    only = TableSelection.of(["app.by_number"])
    assert any(found(verify(target, source, sample=0.5, tables=only)) for _ in range(20))


def test_table_that_is_not_there_is_a_usage_error(source, target):
    make_tables(source)
    copy(target, source)
    with pytest.raises(UsageError, match="no replicated table"):
        verify(target, source, tables=TableSelection.of(["app.nobody"]))


def run(*arguments):
    """Run the program in this process, where Spark runs already."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_program_reports_keys_but_no_values_and_exits_60(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    set_applied(target, source)
    config = write_config(
        tmp_path / "pgrepl.toml",
        target.dsn(),
        {source.name: source.dsn()},
        '[spark]\nmaster = "local[2]"',
    )
    command = ("verify", source.name, "app.accounts", "--config", config)
    clean = run(*command)
    assert clean.exit_code == 0, clean.stderr
    assert "0 rows differ" in clean.stdout
    target.execute(f"update {source.name}_app.accounts set note = 's3cret' where id = 42")
    done = run(*command)
    assert done.exit_code == 60, done.stderr
    assert "changed: app.accounts (id=42) in note" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr
    shown = run(*command, "--show-rows", "--json")
    assert shown.exit_code == 60
    (report,) = json.loads(shown.stdout)["sources"]
    (difference,) = report["tables"][0]["differences"]
    assert difference["target_row"]["note"] == "s3cret"
    assert difference["source_row"]["note"] == "note 42"


@pytest.mark.parametrize("share", ["0%", "5", "101%", "x"])
def test_share_that_is_none_is_a_usage_error(source, target, tmp_path, share):
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    done = run_pgrepl("verify", source.name, "--sample", share, "--config", config)
    assert done.returncode == 2


def test_source_that_was_never_copied_is_an_error_of_the_target(source, target):
    with pytest.raises(TargetError, match="was never copied"):
        verify(target, source)
