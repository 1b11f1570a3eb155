"""A table that lost changes is marked, also where replay has yet to make it under an old name."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.support.running.pipeline import ALONE, IN_PIECES, Pipeline

#: Each ends with a table t without identity that lost a DELETE while replay knows another t.
SWAPS = {
    "dropped": (
        "drop table app.t",
        "create table app.t as select generate_series(1, 3) as id",
        "delete from app.t where id = 1",
    ),
    "in_one_transaction": (
        (
            "begin; drop table app.t; create table app.t as select generate_series(1, 3) as id;"
            " delete from app.t where id = 1; commit"
        ),
    ),
    "renamed_away": (
        "alter table app.t rename to old",
        "create table app.t (id int)",
        "insert into app.t values (1), (2)",
        "delete from app.t where id = 1",
    ),
    "renamed_here": (
        "create table app.other (id int)",
        "insert into app.other values (1), (2)",
        "drop table app.t",
        "alter table app.other rename to t",
        "delete from app.t where id = 1",
    ),
}


@pytest.mark.parametrize("statements", SWAPS.values(), ids=SWAPS)
def test_loss_is_not_forgotten_with_the_table_that_had_the_name(source, target, statements):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(*statements)
    pipeline.receive()
    result = pipeline.replay(ALONE)
    assert result.error is None
    marked = target.rows(
        "select table_name::text from replication.source_table where resync_reason is not null"
    )
    assert ("t",) in marked
    assert target.rows("select from replication.ddl_pending") == []


def test_loss_goes_with_the_table_that_it_is_of(source, target):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "create table app.u (id int)",
        "insert into app.u values (1)",
        "delete from app.u",
        "drop table app.u",
    )
    pipeline.receive()
    assert pipeline.replay(ALONE).error is None
    assert target.rows("select from replication.source_table where table_name = 'u'") == []


@pytest.mark.parametrize(
    "statements",
    [
        # No event trigger sees the first one.
        ("explain analyze create table app.u as select 1 as id", "drop table app.u"),
        (
            (
                "begin; create table app.u (id int); insert into app.u values (1); delete from"
                " app.u; drop table app.u; commit"
            ),
        ),
        (
            "create extension citext schema app",
            "create table app.u (id app.citext)",
            "insert into app.u values ('x')",
            "delete from app.u",
            "drop table app.u",
        ),
    ],
    ids=["unseen", "in_one_transaction", "never_made"],
)
def test_nothing_is_left_of_a_table_that_was_dropped(source, target, statements):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(*statements)
    pipeline.receive()
    assert pipeline.replay(ALONE).error is None
    known = target.rows("select table_name::text, state from replication.source_table")
    assert known == [("t", "ready")]
    assert pipeline.parked() == []


def test_loss_after_a_swap_is_none_of_the_table_that_had_the_name_before(source, target):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "create table app.u (id int); insert into app.u values (1)",
        "alter table app.t rename to s; alter table app.u rename to t;"
        " alter table app.s rename to u",
        "delete from app.t",
        "drop table app.u",
    )
    pipeline.receive()
    assert pipeline.replay(ALONE).error is None
    found = target.rows("select table_name::text, lost_lsn is null from replication.source_table")
    assert found == [("t", False)]


#: Transactions in which app.t, without an identity, loses a row; and what is known and marked then.
MOVED = {
    "renamed": (
        "begin; delete from app.t; alter table app.t rename to u; commit",
        [("k", False), ("u", True)],
    ),
    "renamed_before": (
        "begin; alter table app.t rename to u; delete from app.u; commit",
        [("k", False), ("u", True)],
    ),
    "name_is_taken_over": (
        (
            "begin; delete from app.t; alter table app.t rename to u; create table app.t (id int);"
            " insert into app.t values (1); commit"
        ),
        [("k", False), ("t", False), ("u", True)],
    ),
    "swapped": (
        (
            "begin; delete from app.t; alter table app.t rename to x; alter table app.k rename to"
            " t; alter table app.x rename to k; commit"
        ),
        # The other one may have lost something before: see rename_table().
        [("k", True), ("t", True)],
    ),
    "dropped_and_made": (
        (
            "begin; delete from app.t; drop table app.t; create table app.t (id int primary key);"
            " commit"
        ),
        [("k", False), ("t", False)],
    ),
    "schema_renamed": (
        (
            "begin; delete from app.t; alter schema app rename to ppa; alter schema ppa rename to"
            " apa; commit"
        ),
        [("k", False), ("t", True)],
    ),
}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(None, id="whole"),
        pytest.param(IN_PIECES, id="in_pieces", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(("statements", "expected"), MOVED.values(), ids=MOVED)
def test_loss_follows_its_table_within_the_transaction(
    source, target, statements, expected, settings
):
    pipeline = Pipeline(source, target)
    source.execute(
        "create schema app; create table app.t (id int); insert into app.t values (1);"
        " create table app.k (id int primary key)"
    )
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(statements)
    pipeline.receive(settings)
    assert pipeline.replay(ALONE).error is None
    found = target.rows(
        "select table_name::text, resync_reason is not null from replication.source_table"
        " order by 1"
    )
    assert found == expected


def test_loss_stays_with_its_table_where_replay_has_yet_to_rename_another(source, target):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "alter table app.t rename to u; create table app.t (id int); insert into app.t values (1)"
    )
    pipeline.receive()
    # The next receiver knows u by the name that the target has for it.
    source.execute("begin; delete from app.t; alter table app.u rename to v; commit")
    pipeline.receive()
    assert pipeline.replay(ALONE).error is None
    marked = target.rows(
        "select table_name::text from replication.source_table where resync_reason is not null"
    )
    assert ("t",) in marked


def test_materialized_view_that_was_dropped_before_its_rows_came_is_not_missed(source, target):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "insert into app.t values (1)",
        "create materialized view app.m as select * from app.t",
        "create materialized view app.n as select * from app.t",
        "create unique index on app.n (id)",
        "create materialized view app.kept as select * from app.t",
        "create unique index on app.kept (id)",
        "insert into app.t values (2)",
        "refresh materialized view concurrently app.n",
        "refresh materialized view concurrently app.kept",
        # It gets another row in pg_class by this.
        "refresh materialized view app.kept",
        "drop materialized view app.m, app.n",
    )
    pipeline.apply(ALONE)
    known = target.rows("select table_name::text, state from replication.source_table")
    assert known == [("t", "ready")]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_partition_that_was_renamed_before_its_changes_came_goes_with_its_root(
    source, target, plugin
):
    pipeline = Pipeline(source, target, plugin=plugin, tables=["app.orders"])
    source.execute(
        "create schema app; create table app.orders (id int, k int, primary key (id, k))"
        " partition by list (k); create table app.one partition of app.orders for values in (1)"
    )
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "insert into app.orders values (1, 1)",
        "alter table app.one rename to uno",
        # Another one has the name now, and one was made since.
        "create table app.one (id int)",
        "insert into app.one values (1)",
        "create table app.two partition of app.orders for values in (2)",
        "insert into app.orders values (2, 2)",
        "alter table app.two rename to due",
        "insert into app.orders values (3, 1), (3, 2)",
    )
    pipeline.apply(ALONE)
    there = pipeline.schema("app")
    assert target.value(f"select count(*) from {there}.orders") == 4
    known = target.rows("select table_name::text from replication.source_table order by 1")
    assert known == [("due",), ("orders",), ("uno",)]
