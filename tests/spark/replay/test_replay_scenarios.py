"""Every kind of change on every kind of table arrives, however the spool is cut into batches."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from pgrepl.replayer import ReplaySettings
from tests.support.database import Database
from tests.support.running.pipeline import IN_PIECES, Pipeline, clone
from tests.support.running.replaying import checksums
from tests.support.workloads.scenarios import SCENARIOS
from tests.support.workloads.table_scenarios import TABLE_SCENARIOS
from tests.support.workloads.type_scenarios import TYPE_SCENARIOS

ALL = {**SCENARIOS, **TABLE_SCENARIOS, **TYPE_SCENARIOS}

EXTENSIONS = [
    "create extension citext",
    "create extension ltree",
    "create extension btree_gist",
]

#: Many batches of several chunks, each read while another is applied.
SMALL = ReplaySettings(batch_changes=80, step_bytes=1, chunk_bytes=3000)

#: Options of section [replay], and how the replayer cuts.
MODES = {
    "shard": ({"consistency": "shard"}, ReplaySettings()),
    "shard_small": ({"consistency": "shard"}, SMALL),
    "batch": ({"consistency": "batch"}, ReplaySettings()),
    "batch_small": ({"consistency": "batch"}, SMALL),
}
#: Of each plugin's changes the modes that are run.
PLUGIN_MODES = [
    ("wal2json", "shard"),
    ("wal2json", "shard_small"),
    ("wal2json", "batch_small"),
    ("pgoutput", "shard"),
    ("pgoutput", "shard_small"),
    ("pgoutput", "batch"),
]
#: Those that are left to make soak.
LONG = {
    ("wal2json", "shard"),
    ("wal2json", "shard_small"),
    ("pgoutput", "shard"),
    ("pgoutput", "batch"),
}


def run_in_schema(database: Database, schema: str, statements: list[str]) -> None:
    with psycopg.connect(database.dsn(), autocommit=True) as connection:
        connection.execute(SQL("set search_path = {}").format(Identifier(schema)))
        for statement in filter(None, statements):
            connection.execute(statement.encode())


@pytest.fixture(scope="module")
def received(one_spark_session, source_cluster, target_cluster):  # noqa: ARG001
    """Have all scenarios copied, changed and received by each plugin; nobody has replayed them."""
    with ExitStack() as stack:
        yield {
            plugin: stack.enter_context(_receive_all(source_cluster, target_cluster, plugin))
            for plugin in ("wal2json", "pgoutput")
        }


@contextmanager
def _receive_all(source_cluster, target_cluster, plugin):
    source = Database(source_cluster, f"scenarios_{plugin}")
    target = Database(target_cluster, f"scenarios_{plugin}_target")
    for database in (source, target):
        database.cluster.create_database(database.name)
    try:
        source.execute(*EXTENSIONS, "create extension hstore")
        target.execute(
            *EXTENSIONS, "create schema extensions", "create extension hstore schema extensions"
        )
        for name, scenario in ALL.items():
            with source.connect() as connection:
                connection.execute(SQL("create schema {}").format(Identifier(name)))
            run_in_schema(source, name, [scenario.setup])
        pipeline = Pipeline(source, target, plugin=plugin)
        pipeline.copy()
        for name, scenario in ALL.items():
            run_in_schema(target, pipeline.schema(name), [scenario.target])
            run_in_schema(source, name, list(scenario.changes))
        pipeline.receive(IN_PIECES)
        yield pipeline
    finally:
        source.drop()
        target.drop()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(pair, id="-".join(pair), marks=[pytest.mark.soak] if pair in LONG else [])
        for pair in PLUGIN_MODES
    ],
)
def replayed(received, request):
    plugin, mode = request.param
    own = received[plugin]
    options, settings = MODES[mode]
    target = clone(own.target, f"scenarios_{plugin}_{mode}")
    try:
        pipeline = Pipeline(own.source, target, options, plugin=plugin)
        yield pipeline, pipeline.replay(settings)
    finally:
        # The origin belongs to the database that was cloned.
        target.execute("delete from replication.source")
        target.drop()


def contents(database, schema, columns):
    if columns == "*":
        return checksums(database, schema)
    return sorted(database.rows(f'select {columns} from "{schema}".t'), key=repr)


@pytest.mark.parametrize("name", ALL)
def test_target_is_the_source(replayed, name, binaries):
    pipeline, _ = replayed
    parked = pipeline.target.rows(
        "select split_part(reason, ',', 1) from replication.parked_table"
        f" where schema_name = $${name}$$"
    )
    if name == "generated_key" and pipeline.plugin == "pgoutput" and binaries.version < (18,):
        # Of such a table UPDATE and DELETE cannot be sent before version 18.
        assert parked == [('column "g" is generated on the source',)]
        return
    assert parked == []
    columns = ALL[name].columns
    here = contents(pipeline.target, pipeline.schema(name), columns)
    assert here == contents(pipeline.source, name, columns)


def test_nothing_is_left_over(replayed):
    pipeline, result = replayed
    assert result.error is None
    assert pipeline.spool_count() == 0
    assert pipeline.target.rows("select table_name from replication.conflict") == []
    assert (
        pipeline.target.rows(
            "select relname from pg_class where relnamespace = 'replication'::regnamespace"
            " and relname like 'stage%'"
        )
        == []
    )


def test_what_only_the_target_has_stays(replayed):
    pipeline, _ = replayed
    schema = pipeline.schema("more_columns_on_the_target")
    found = pipeline.target.rows(f"select id, added, stamp from {schema}.t order by id")
    assert found == [
        (1, 1, "here"),
        (3, 3, "here"),
        (4, 4, "here"),
        (6, 6, "here"),
        (10, 7, "here"),
        (20, 2, "here"),
    ]


@pytest.mark.usefixtures("one_spark_session")
def test_numbers_that_are_none_arrive_where_that_is_asked_for(source, target):
    source.execute(
        "create table t (id int primary key, f float8, r float4, n numeric)",
        "insert into t values (1, 1, 1, 1), (2, 2, 2, 2)",
    )
    pipeline = Pipeline(source, target, special_floats="exact")
    pipeline.copy()
    source.execute(
        "insert into t values (3, 'NaN', '-Infinity', 'NaN'), (4, '-0', 0, 'Infinity')",
        "insert into t values (5, null, null, null)",
        "update t set f = 'Infinity', n = 'NaN' where id = 1",
        "begin; update t set r = 'NaN' where id = 2; update t set n = 3 where id = 2; commit",
    )
    pipeline.apply()
    assert pipeline.differences() == []
