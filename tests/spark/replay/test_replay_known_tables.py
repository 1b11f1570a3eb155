"""What a worker remembers of tables between tasks, and tables that are applied together."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from pgrepl.config.dsn import Side
from pgrepl.lsn import Lsn
from pgrepl.replayer import target_table
from pgrepl.replayer.session import open_session
from pgrepl.replayer.shard import together
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import run_shard
from pgrepl.replayer.target_table import Tables
from pgrepl.store.sources import find_source
from pgrepl.store.tables.target_tables import read_versions
from tests.support.running.backlog import control, plan
from tests.support.running.pipeline import IN_PIECES, QUICK, Pipeline
from tests.support.workloads.type_scenarios import TYPES

NAME = ("public", "t")

#: Whatever says how changes of a table are read and applied.
CHANGES = [
    "alter table {s}.t add column extra int",
    "alter table {s}.t rename column extra to more",
    "alter table {s}.t drop column more",
    # Neither is the table written again, nor its row in pg_class.
    "alter table {s}.t alter note type text",
    "alter table {s}.t alter mood drop identity",
    "alter type {s}.feeling rename to sense",
    "alter schema {s} rename to away",
    "alter schema away rename to {s}",
    "alter table {s}.t drop constraint t_pkey",
    "alter table {s}.t add primary key (id, note)",
    "alter table {s}.t rename to gone",
    "alter table {s}.gone rename to t",
    "update replication.source_table set start_lsn = '0/2'",
    "update replication.source_table set state = 'copying'",
    "update replication.source_table set state = 'ready'",
    (
        "insert into replication.parked_table (source_id, schema_name, table_name, kind, reason)"
        " select source_id, schema_name, table_name, 'failed', 'x' from replication.source_table"
    ),
    "delete from replication.parked_table",
    (
        "insert into replication.skipped_code"
        " (source_id, kind, schema_name, table_name, name, reason)"
        " select source_id, 'generated column', schema_name, table_name, 'note', 'x'"
        " from replication.source_table"
    ),
    "update replication.skipped_code set name = 'felt'",
    "delete from replication.skipped_code",
]


def test_table_is_asked_for_again_when_anything_about_it_has_changed(source, target):
    source.execute(
        "create type feeling as enum ('good')",
        "create table t (id int primary key, note varchar(20), felt feeling,"
        " mood int generated always as identity)",
    )
    pipeline = Pipeline(source, target)
    pipeline.copy()
    endpoint = target.endpoint(Side.TARGET)
    with control(pipeline) as connection, closing(open_session(endpoint, QUICK)) as session:
        row = find_source(connection, source.name)
        assert row is not None

        def tables(**options):
            return Tables(session, row.source_id, Lsn(1), **options)

        def look_up():
            known = tables(relies_on_known=True)
            known.look_up(NAME)
            known.is_current()
            return known.look_up(NAME)

        look_up()
        assert (row.source_id, NAME) in target_table._knowledge[session].tables
        for change in CHANGES:
            target.execute(change.format(s=pipeline.schema()))
            table, fresh = look_up(), tables().look_up(NAME)
            assert replace(table, shape=None) == replace(fresh, shape=None), change
            assert (table.shape is None) == (fresh.shape is None), change
            if table.shape is not None and fresh.shape is not None:
                assert (table.shape.columns, table.shape.key) == (
                    fresh.shape.columns,
                    fresh.shape.key,
                ), change


def run_tasks(pipeline):
    _, tasks = plan(pipeline)
    results = [run_shard(task) for task in tasks]
    for result in results:
        assert isinstance(result, ShardResult), result
    return results


def test_table_changed_between_two_tasks_is_applied_as_it_is_now(source, target):
    source.execute("create table t (id int primary key, data text, n int)")
    pipeline = Pipeline(source, target, options={"shards": 1})
    pipeline.copy()
    source.execute("insert into t values (1, '\\x6162', 1)")
    pipeline.receive()
    run_tasks(pipeline)
    # wal2json prints it otherwise, and UPDATE can set a column less.
    for database, schema in ((source, "public"), (target, pipeline.schema())):
        database.execute(
            f"alter table {schema}.t alter data type bytea using data::bytea",
            f"alter table {schema}.t drop column n",
            f"alter table {schema}.t add column n int generated always as (id * 2) stored",
        )
    source.execute(
        "insert into t values (2, '\\x6364')", "update t set data = '\\x65' where id = 1"
    )
    pipeline.receive(IN_PIECES)
    run_tasks(pipeline)
    assert pipeline.differences() == []


def test_more_tables_than_are_read_ahead_are_not_asked_for_one_by_one(source, target, monkeypatch):
    count = 60
    for number in range(count):
        source.execute(f"create table t_{number} (id int primary key)")
    pipeline = Pipeline(source, target, options={"shards": 1})
    pipeline.copy()
    for number in range(count):
        source.execute(f"insert into t_{number} values (1)")
    pipeline.receive()
    asked: list[int] = []

    def count_questions(connection, source_id, names):
        asked.append(len(names))
        return read_versions(connection, source_id, names)

    monkeypatch.setattr(target_table, "_AHEAD", 10)
    monkeypatch.setattr(target_table, "read_versions", count_questions)
    run_tasks(pipeline)
    assert pipeline.differences() == []
    # The last one is asked when all are applied: are they still as they were read?
    assert asked.pop() == count
    assert sum(asked) == count
    assert len(asked) < count / 5


def test_of_tables_applied_together_only_the_one_that_fails_is_parked(source, target, monkeypatch):
    names = ["a", "b", "c", "d"]
    for name in names:
        source.execute(f"create table {name} (id int primary key, n int unique, note text)")
        source.execute(f"insert into {name} select g, g, 'x' from generate_series(1, 9) g")
    pipeline = Pipeline(source, target, options={"shards": 1})
    pipeline.copy()
    monkeypatch.setattr(together, "_apart_until", {})
    # a is applied in the second way only; b fails; what c and d need is prepared by then.
    for round_number in range(5):
        for name in names:
            source.execute(f"update {name} set note = 'y{round_number}' where id < 5")
        if round_number == 1:
            source.execute(
                "update a set n = 0 where n = 1; update a set n = 1 where n = 2;"
                "update a set n = 2 where n = 0"
            )
        if round_number == 3:
            target.execute(f"delete from {pipeline.schema()}.b where id = 2")
        pipeline.receive()
        (result,) = run_tasks(pipeline)
        assert [parking.name for parking in result.parked] == (
            [("public", "b")] if round_number == 3 else []
        )
        apart = {name for _, name in together._apart_until}
        assert apart == (set(), {"a"}, {"a"}, {"a", "b"}, {"a", "b"})[round_number]
    assert [table for table, _ in pipeline.parked()] == ["b"]
    assert pipeline.differences() == ["b"]


#: Types of people's own, made before the tables, with two values each.
OWN_TYPES = {
    "create type mood as enum ('a b', 'c,\"d\"')": ("mood", "'a b'", "'c,\"d\"'"),
    "create type pair as (a int, b text)": ("pair", "row(1, 'x, \"y\" \\'::text)::pair", "'(,)'"),
    "create domain whole as int not null check (value > 0)": ("whole", "1", "2"),
    "create domain couple as pair": ("couple", "'(1,x)'", "'(2,)'"),
    "create domain code as varchar(3)": ("code[]", "'{abc,null}'", "'{}'"),
    "create type spans as range (subtype = numeric)": ("spans", "'[1.10,2)'", "'empty'"),
    "create type lists as (n numeric(5, 2)[])": ("lists[]", "array[row('{1,2}')]::lists[]", "'{}'"),
}


def test_rows_of_every_type_are_applied_together_with_others(source, target, monkeypatch):
    types = [*TYPES, *OWN_TYPES.values()]
    source.execute(*OWN_TYPES)
    for number, (kind, first, _) in enumerate(types):
        source.execute(
            f"create table t{number} (id int primary key, v {kind})",
            f"insert into t{number} select g, {first} from generate_series(1, 6) g",
        )
    pipeline = Pipeline(source, target, options={"shards": 1})
    pipeline.copy()
    for number, (_, first, second) in enumerate(types):
        source.execute(
            f"update t{number} set v = {second} where id < 3; delete from t{number} where id > 4;"
            f"insert into t{number} values (10, {first}), (11, {second})"
        )
    pipeline.receive()
    monkeypatch.setattr(together, "_apart_until", {})
    monkeypatch.setattr(together, "write_staging", None)
    run_tasks(pipeline)
    assert together._apart_until == {}
    assert pipeline.differences() == []
