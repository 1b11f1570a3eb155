"""Changes of tables whose schema is renamed while the receiver reads them."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.support.running.pipeline import ALONE, Pipeline


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
@pytest.mark.parametrize(
    ("messages", "schemas"),
    [
        (["alter schema one rename to three", "update three.t set a = 7"], ("two", "three")),
        (
            [
                (
                    "begin; alter schema one rename to x; update x.t set a = 6 where id = 2;"
                    " alter schema two rename to one; insert into one.t values (3, 3); alter schema"
                    " x rename to two; update two.t set a = a + 1; commit"
                ),
                "update one.t set a = 8 where id = 1; delete from two.t where id = 1",
            ],
            ("one", "two"),
        ),
    ],
    ids=["renamed", "swapped"],
)
def test_changes_reach_the_table_that_they_are_about(source, target, plugin, messages, schemas):
    for name, value in (("one", 1), ("two", 2)):
        source.execute(
            f"create schema {name} create table t (id int primary key, a int)",
            f"insert into {name}.t values (1, {value})",
        )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    # The server describes the tables with these, and pgoutput of 15 never again.
    source.execute("insert into one.t values (2, 1)", "insert into two.t values (2, 2)", *messages)
    pipeline.apply(ALONE)
    assert [pipeline.differences(name) for name in schemas] == [[], []]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
@pytest.mark.parametrize(
    ("renames", "schemas"),
    [
        ("alter schema one rename to three", ("three", "two")),
        (
            (
                "begin; alter schema one rename to x; alter schema two rename to one; alter schema"
                " x rename to two; commit"
            ),
            ("two", "one"),
        ),
        (
            (
                "alter schema one rename to x; alter schema x rename to y; create schema one;"
                " create table one.t (id text primary key)"
            ),
            ("y", "one", "two"),
        ),
    ],
    ids=["renamed", "swapped", "twice"],
)
def test_transaction_that_is_open_meanwhile_is_about_the_same_tables(
    source, target, plugin, renames, schemas
):
    now = schemas[0]
    for name, value in (("one", 1), ("two", 2)):
        source.execute(
            f"create schema {name} create table t (id int primary key, a int)",
            f"insert into {name}.t values (1, {value})",
        )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    with source.connect() as writer:
        # A schema is renamed whoever writes into its tables.
        writer.execute("begin; insert into one.t values (2, 2); update two.t set a = 5")
        source.execute(renames)
        writer.execute(f"insert into {now}.t values (3, 3); update {now}.t set a = a + 1; commit")
    source.execute(f"insert into {now}.t values (4, 4)")
    pipeline.apply(ALONE)
    assert {name: pipeline.differences(name) for name in schemas} == {name: [] for name in schemas}
    assert target.rows("select from replication.source_table where state <> 'ready'") == []
