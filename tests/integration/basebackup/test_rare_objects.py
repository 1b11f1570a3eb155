"""Rare but legal schemas are copied; what cannot be is named."""

from __future__ import annotations

from pgrepl.config.naming import TableSelection
from tests.support.running.copying import copy, structure
from tests.support.running.replaying import checksums

FOREIGN = """
create foreign data wrapper nothing;
create server nowhere foreign data wrapper nothing;
create schema app;
"""


def named(report):
    """Return what was skipped; that nothing is there twice is part of every test."""
    found = [(item.kind, item.name) for item in report.left_out]
    assert len(found) == len(set(found))
    return set(found)


def assert_arrives(source, target, **options):
    report = copy(target, source, jobs=1, **options)
    prefix = f"{source.name}_"
    assert structure(target, ["app"], prefix) == structure(source, ["app"])
    assert checksums(target, f"{prefix}app") == checksums(source, "app")
    return report


def test_statistics_keep_their_target_and_domains_checks_that_old_rows_break(source, target):
    source.execute(
        """
        create schema app;
        create domain app.amount as integer;
        create table app.t (id integer primary key, a app.amount, b integer);
        create statistics app.t_stats on a, b from app.t;
        alter statistics app.t_stats set statistics 500;
        insert into app.t values (1, -1, 1);
        alter domain app.amount add constraint positive check (value > 0) not valid;
        """
    )
    assert_arrives(source, target)
    assert target.value("select stxstattarget from pg_statistic_ext") == 500


def test_foreign_table_as_a_partition_is_left_out_by_name(source, target):
    source.execute(
        FOREIGN,
        """
        create table app.r (id integer not null, place integer not null)
            partition by list (place);
        alter table app.r replica identity full;
        create table app.here partition of app.r for values in (1);
        alter table app.here replica identity full;
        create foreign table app.there partition of app.r for values in (2) server nowhere;
        insert into app.r values (1, 1);
        """,
    )
    report = copy(target, source, jobs=1)
    assert ("foreign table", "app.there") in named(report)
    assert target.rows(f"select id, place from {source.name}_app.r") == [(1, 1)]


def test_comments_on_rare_objects_arrive(source, target):
    source.execute(
        """
        create schema app;
        create domain app.amount as integer constraint small check (value < 100);
        comment on constraint small on domain app.amount is 'below a hundred';
        alter domain app.amount add constraint positive check (value > 0) not valid;
        comment on constraint positive on domain app.amount is 'above zero';
        create function app.is_same(integer, integer) returns boolean language sql immutable
            as 'select $1 = $2';
        create function app.is_same(text, text) returns boolean language sql immutable
            as 'select $1 = $2';
        create function app.is_some(integer) returns boolean language sql immutable
            as 'select $1 <> 0';
        create operator app.=== (leftarg = integer, rightarg = integer, function = app.is_same);
        create operator app.!== (rightarg = integer, function = app.is_some);
        comment on operator app.===(integer, integer) is 'the same';
        comment on operator app.!==(none, integer) is 'some';
        create table app.t (id integer primary key, a app.amount, b integer,
            constraint same check (b operator(app.===) b and operator(app.!==) b));
        create statistics app.t_stats on a, b from app.t;
        comment on statistics app.t_stats is 'both';
        insert into app.t values (1, 2, 3);
        """
    )
    left_out = named(assert_arrives(source, target, trust_code=True))
    assert not [item for item in left_out if item[0] == "comment"]


def test_operator_of_the_same_name_that_no_table_needs_is_left_out(source, target):
    source.execute(
        """
        create schema app;
        create function app.is_same(text, text) returns boolean language sql immutable
            as 'select $1 = $2';
        create operator app.=== (leftarg = integer, rightarg = integer, function = int4eq);
        create operator app.=== (leftarg = text, rightarg = text, function = app.is_same);
        create table app.t (id integer primary key check (id operator(app.===) id));
        """
    )
    assert ("operator", "app.===(text, text)") in named(
        copy(target, source, jobs=1, trust_code=True)
    )


def test_statistics_of_a_materialized_view_arrive_whole(source, target):
    source.execute(
        """
        create schema app;
        create table app.t (id integer primary key, a integer, b integer);
        create materialized view app.stored as select a, b from app.t;
        create statistics app.stored_stats on a, b from app.stored;
        alter statistics app.stored_stats set statistics 500;
        comment on statistics app.stored_stats is 'both';
        """
    )
    assert_arrives(source, target, with_views=True)


def test_operator_class_comes_with_its_operators_and_functions(source, target):
    source.execute(
        """
        create schema app;
        create function app.comes_before(integer, integer) returns boolean language sql immutable
            as 'select $1 > $2';
        create function app.compare(integer, integer) returns integer language sql immutable
            as 'select btint4cmp($2, $1)';
        create operator app.<<< (leftarg = integer, rightarg = integer,
            function = app.comes_before);
        create operator class app.backwards for type integer using btree
            as operator 1 app.<<<, operator 2 >=, operator 3 =, operator 4 <=, operator 5 <,
            function 1 app.compare(integer, integer);
        comment on operator class app.backwards using btree is 'downhill';
        comment on operator family app.backwards using btree is 'all of them';
        create table app.t (id integer primary key, a integer);
        create unique index t_a on app.t (a app.backwards);
        insert into app.t values (1, 1), (2, 2);
        """
    )
    assert_arrives(source, target, trust_code=True)
    comments = (
        "select obj_description(c.oid, 'pg_opclass'), obj_description(f.oid, 'pg_opfamily')"
        " from pg_opclass c join pg_opfamily f on f.oid = c.opcfamily"
        " where opcname = 'backwards'"
    )
    assert target.rows(comments) == [("downhill", "all of them")]


def test_unlogged_partition_is_named_though_only_its_root_is_selected(source, target):
    source.execute(
        """
        create schema app;
        create table app.r (id integer primary key) partition by list (id);
        create table app.r_1 partition of app.r for values in (1);
        create unlogged table app.r_2 partition of app.r for values in (2);
        create unlogged table app.other (id integer primary key);
        """
    )
    left_out = named(copy(target, source, jobs=1, tables=TableSelection.of(["app.r"])))
    assert ("unlogged table", "app.r_2") in left_out
    assert ("unlogged table", "app.other") not in left_out


def test_foreign_tables_far_from_the_copy_and_large_objects_are_named(source, target):
    source.execute(
        FOREIGN,
        """
        create schema far;
        create table app.t (id integer primary key);
        create foreign table app.near (id integer) server nowhere;
        create foreign table far.away (id integer) server nowhere;
        create foreign table far.unwanted (id integer) server nowhere;
        select lo_create(0), lo_create(0);
        """,
    )
    chosen = TableSelection.of(["*.*"], ["far.unwanted"])
    left_out = named(copy(target, source, jobs=1, tables=chosen))
    assert {("foreign table", "app.near"), ("foreign table", "far.away")} <= left_out
    assert ("foreign table", "far.unwanted") not in left_out
    assert [name for kind, name in left_out if kind == "large objects"] == ["2 in all"]


def test_large_objects_are_not_named_when_there_are_none(source, target):
    source.execute("create schema app; create table app.t (id integer primary key)")
    assert named(copy(target, source, jobs=1)) == set()
