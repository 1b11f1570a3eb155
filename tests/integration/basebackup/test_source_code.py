"""No code of a source runs on the target: a copy needs values, not code."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.basebackup.dry_run import plan_copy
from pgrepl.basebackup.report import CopyOptions
from pgrepl.config.naming import TableSelection
from pgrepl.errors import SourceError
from tests.support.running.copying import copy, has_slot, make_config, make_objects, slot_of
from tests.support.running.replaying import checksums, replay_slot

# Whoever runs the source's code on the target finds what it read and wrote.
VICTIM = """
create schema victim_app;
create table victim_app.secrets (what text);
insert into victim_app.secrets values ('do not read');
create table public.loot (what text);
"""
# The bodies name no schema of the target: it is put together when they run.
STEAL = """
    if to_regclass('vic' || 'tim_app.secrets') is not null then
        execute 'insert into pub' || 'lic.loot select what from vic' || 'tim_app.secrets';
    end if;
"""
# One that claims to be immutable cannot INSERT; it can call what writes.
STEAL_QUIETLY = """
    if to_regclass('vic' || 'tim_app.secrets') is not null then
        execute 'select lo_from_bytea(0, what::bytea) from vic' || 'tim_app.secrets';
    end if;
"""
THIEF = """
create schema app;
create function app.check_it(integer) returns boolean language plpgsql volatile
    as $$ begin STEAL return true; end $$;
create function app.check_quietly(integer) returns boolean language plpgsql immutable
    as $$ begin QUIETLY return true; end $$;
create function app.twice(integer) returns integer language plpgsql immutable
    as $$ begin QUIETLY return $1 * 2; end $$;
create function app.twice_sql(integer) returns integer language sql immutable
    as 'select app.twice($1)';
create function public.lower(integer) returns integer language sql immutable
    as 'select app.twice($1)';
create function app.equals(integer, integer) returns boolean language plpgsql immutable
    as $$ begin QUIETLY return $1 is not distinct from $2; end $$;
create function app.compare(integer, integer) returns integer language plpgsql immutable
    as $$ begin QUIETLY return btint4cmp($1, $2); end $$;
create operator public.= (leftarg = integer, rightarg = integer, function = app.equals);
create operator class app.own_ops for type integer using btree as
    operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,
    function 1 app.compare(integer, integer);
create type app.color as enum ('red', 'blue');
create function app.to_int(app.color) returns integer language plpgsql immutable
    as $$ begin QUIETLY return 1; end $$;
create cast (app.color as integer) with function app.to_int(app.color);
create aggregate app.total (integer) (sfunc = int4pl, stype = integer);
create domain app.safe as integer check (value > 0);
create domain app.bad as integer default app.twice(1)
    constraint watched check (app.check_it(value)) constraint small check (value < 100);
comment on constraint watched on domain app.bad is 'watched';
""".replace("STEAL", STEAL).replace("QUIETLY", STEAL_QUIETLY)
TABLES = """
create table app.t (
    id integer primary key,
    a integer not null default app.twice(1),
    b app.bad default 7,
    c app.color default 'red',
    d app.safe,
    made timestamptz default now(),
    g integer generated always as (app.twice(a)) stored,
    h integer generated always as (app.twice_sql(a) + 1) stored,
    i integer generated always as (a + 1) stored,
    k integer generated always as (public.lower(a)) stored,
    tags text[] generated always as (array[app.twice(a)::text]) stored,
    constraint called check (app.check_it(a)),
    constraint nosy check (query_to_xml('select 1', true, true, '') is not null),
    constraint own_operator check (a operator(public.=) a),
    constraint own_cast check (c::integer > 0),
    constraint fine check (a > 0 and lower('X') = 'x'),
    constraint apart exclude using btree (app.twice(a) with =),
    constraint fine_apart exclude using btree (id with =) where (id > 0)
);
comment on constraint called on app.t is 'called';
create unique index t_expression on app.t (app.twice(a));
create unique index t_partial on app.t (a) where app.check_quietly(a);
create unique index t_fine on app.t ((a + 1)) where id > 0;
create index t_plain on app.t (app.twice(id));
create statistics app.t_statistics on (app.twice(a)), (a + id) from app.t;
alter table app.t add constraint late check (app.check_it(id)) not valid;

create table app.u (id integer not null, note text);
create unique index u_id on app.u (id app.own_ops);
alter table app.u replica identity using index u_id;
create table app.v (id integer primary key, u integer,
    constraint v_u foreign key (u) references app.u (id));

create table app.p (id integer not null, g integer generated always as (app.twice(id)) stored,
    constraint p_called check (app.check_it(id))) partition by range (id);
alter table app.p replica identity full;
create table app.p_1 partition of app.p for values from (0) to (100);
alter table app.p_1 replica identity full;
create table app.parent (
    id integer primary key, g integer generated always as (app.twice(id)) stored,
    constraint parent_called check (app.check_it(id)));
create table app.child (note text, primary key (id)) inherits (app.parent);

insert into app.u values (1, 'one'), (2, 'two');
insert into app.v values (1, 1), (2, 2);
insert into app.t (id, a, b, d) values (1, 1, 5, 1), (2, 2, 6, 2);
insert into app.p (id) values (1), (2);
insert into app.child (id, note) values (7, 'x');
"""
VIEWS = """
create view app.a_view as select id, app.twice(a) as b from app.t;
comment on view app.a_view is 'of code';
create view app.b_view as select b from app.a_view;
create view app.file_view as select pg_read_file('/etc/passwd') as what;
create materialized view app.m_view as select app.total(a) as total from app.t;
create unique index m_view_total on app.m_view (total);
create view app.fine_view as select t.id, max(t.a), count(*) as n, now() as at
    from app.t group by t.id;
"""
CODE = {
    ("check", "called of app.t"),
    ("check", "nosy of app.t"),
    ("check", "own_operator of app.t"),
    ("check", "own_cast of app.t"),
    ("check", "late of app.t"),
    ("check", "p_called of app.p"),
    ("check", "p_called of app.p_1"),
    ("check", "parent_called of app.parent"),
    ("default", "a of app.t"),
    ("domain check", "watched of app.bad"),
    ("domain default", "app.bad"),
    ("exclusion constraint", "apart of app.t"),
    ("foreign key", "v_u of app.v"),
    ("generated column", "g of app.t"),
    ("generated column", "h of app.t"),
    ("generated column", "k of app.t"),
    ("generated column", "tags of app.t"),
    ("generated column", "g of app.p"),
    ("generated column", "g of app.p_1"),
    ("generated column", "g of app.parent"),
    ("index", "t_expression of app.t"),
    ("index", "t_partial of app.t"),
    ("index", "t_plain of app.t"),
    ("index", "u_id of app.u"),
    ("statistics", "t_statistics of app.t"),
}
SKIPPED = {kind for kind, _ in CODE}
VIEWS_OF_CODE = {
    ("view", "app.a_view"),
    ("view", "app.b_view"),
    ("view", "app.file_view"),
    ("materialized view", "app.m_view"),
}


def named(report):
    """Return what is not in the copy; that nothing is there twice is part of every test."""
    found = [(item.kind, item.name) for item in report.left_out]
    assert len(found) == len(set(found))
    return set(found)


def assert_nothing_ran(target, source):
    assert target.rows("select * from public.loot") == []
    assert target.value("select count(*) from pg_largeobject_metadata") == 0
    assert (
        target.rows(
            "select p.oid::regprocedure::text from pg_proc p"
            " join pg_namespace n on n.oid = p.pronamespace"
            f" where n.nspname like '{source.name}%'"
        )
        == []
    )
    assert target.value("select count(*) from pg_operator where oid >= 16384") == 0
    assert target.value("select count(*) from pg_cast where oid >= 16384") == 0
    assert target.value("select count(*) from pg_namespace where nspname ~ 'rehearsal'") == 0


def test_nothing_of_a_sources_code_comes_to_the_target_or_runs_there(source, target):
    target.execute(VICTIM)
    source.execute(THIEF, TABLES, VIEWS)
    options: dict[str, Any] = {"jobs": 1, "with_views": True, "with_all_indexes": True}
    config = make_config(target, source)
    plan = plan_copy(config, config.sources[source.name], CopyOptions(**options), default_jobs=1)
    assert named(plan) >= CODE | VIEWS_OF_CODE
    assert target.value("select count(*) from pg_namespace where nspname ~ '_app'") == 1
    report = copy(target, source, **options)
    assert_nothing_ran(target, source)
    prefix = f"{source.name}_"
    assert checksums(target, f"{prefix}app") == checksums(source, "app")

    code = {"function", "operator", "opclass", "opfamily"}
    assert {item for item in named(report) if item[0] not in code} - {
        ("cast", "(app.color as integer)")
    } == CODE | VIEWS_OF_CODE
    assert {"function", "opclass"} <= {kind for kind, _ in named(report)}
    recorded = target.rows(
        "select kind, schema_name::text, table_name::text, name::text, definition, reason"
        " from replication.skipped_code where table_name = 't' and name in ('g', 'called', 'nosy')"
        " order by name"
    )
    not_ours = "function \"{}\" is neither PostgreSQL's own nor an extension's"
    assert recorded == [
        ("check", "app", "t", "called", "app.check_it(a)", not_ours.format("check_it")),
        (
            *("generated column", "app", "t", "g", "app.twice(a)"),
            not_ours.format("twice") + "; a plain column holds the source's values",
        ),
        (
            *("check", "app", "t", "nosy"),
            "query_to_xml('select 1'::text, true, true, ''::text) IS NOT NULL",
            "PostgreSQL does not take it for immutable",
        ),
    ]


def test_what_calls_only_postgresql_is_made_and_kept_up_to_date(source, target):
    target.execute(VICTIM)
    source.execute(THIEF, TABLES, VIEWS)
    copy(target, source, jobs=1, with_views=True, with_all_indexes=True)
    schema = f"{source.name}_app"
    constraints = target.rows(
        "select conname::text from pg_constraint where connamespace = "
        f"'{schema}'::regnamespace and contype in ('c', 'x') and conrelid <> 0 order by 1"
    )
    assert constraints == [("fine",), ("fine_apart",)]
    assert target.rows(
        f"select conname::text from pg_constraint where contypid = '{schema}.bad'::regtype"
    ) == [("small",)]
    assert target.rows(
        "select attname::text from pg_attribute where attgenerated <> ''"
        f" and attrelid = '{schema}.t'::regclass"
    ) == [("i",)]
    assert target.value(f"select to_regclass('{schema}.t_fine') is not null")
    assert target.value(f"select count(*) from {schema}.fine_view") == 2
    assert target.rows(
        "select attname::text, pg_get_expr(adbin, adrelid) from pg_attrdef d join pg_attribute a"
        f" on attrelid = adrelid and attnum = adnum where adrelid = '{schema}.t'::regclass"
        " and attgenerated = '' order by 1"
    ) == [("b", "7"), ("c", f"'red'::{schema}.color"), ("made", "now()")]

    source.execute(
        "update app.t set a = 9 where id = 1",
        "insert into app.t (id, a, b, d) values (3, 3, 7, 3)",
        "update app.u set note = 'zwei' where id = 2",
        "update app.p set id = 5 where id = 1",
        "update app.child set note = 'y'",
    )
    replay_slot(source, target, slot_of(source), {"app": schema})
    assert checksums(target, schema) == checksums(source, "app")
    assert_nothing_ran(target, source)


def test_trusted_code_comes_along(source, target):
    without_cast = TABLES.replace("constraint own_cast check (c::integer > 0),", "")
    source.execute(THIEF, without_cast, VIEWS)
    report = copy(target, source, jobs=1, with_views=True, with_all_indexes=True, trust_code=True)
    kinds = {kind for kind, _ in named(report)}
    assert not kinds & {"check", "default", "generated column", "index", "domain check", "view"}
    schema = f"{source.name}_app"
    assert (
        target.value(
            f"select attgenerated::text from pg_attribute where attname = 'g' and"
            f" attrelid = '{schema}.t'::regclass"
        )
        == "s"
    )
    assert target.value(f"select to_regproc('{schema}.check_it') is not null")
    assert checksums(target, schema) == checksums(source, "app")
    assert target.value("select count(*) from replication.skipped_code") == 0


def test_trusted_code_runs(source, target):
    target.execute(VICTIM)
    table = "create table app.t (id integer primary key, constraint c check (app.check_it(id)))"
    source.execute(THIEF, table, "insert into app.t values (1)")
    copy(target, source, jobs=1, trust_code=True)
    assert target.rows("select what from public.loot") == [("do not read",)]


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            """
            create type app.base;
            create function app.base_in(cstring) returns app.base language internal
                immutable strict as 'int4in';
            create function app.base_out(app.base) returns cstring language internal
                immutable strict as 'int4out';
            create type app.base (input = app.base_in, output = app.base_out, like = integer);
            create type app.pair as (a app.base, b integer);
            create table app.t (id integer primary key, value app.pair[]);
            """,
            r"value of app\.t is of type app\.pair, which needs code of the source: it is made",
        ),
        (
            """
            create function app.difference(float8, float8) returns float8 language sql immutable
                as 'select $1 - $2';
            create function app.compare(integer, integer) returns integer language sql immutable
                as 'select btint4cmp($2, $1)';
            create operator class app.backwards for type integer using btree as
                operator 1 >, operator 2 >=, operator 3 =, operator 4 <=, operator 5 <,
                function 1 app.compare(integer, integer);
            create type app.span as range (subtype = integer, subtype_opclass = app.backwards);
            create table app.t (id integer primary key, value app.span);
            """,
            r"column value of app\.t is of type app\.span, which needs code of the source",
        ),
        (
            """
            create function app.place(integer) returns integer language sql immutable
                as 'select $1 % 2';
            create table app.t (id integer) partition by list (app.place(id));
            create table app.t_0 partition of app.t for values in (0);
            """,
            r"the partition key of app\.t cannot be computed on the target: function \"place\"",
        ),
    ],
)
def test_table_that_is_nothing_without_code_is_refused_by_name(source, target, objects, message):
    source.execute("create schema app", objects)
    with pytest.raises(SourceError, match=message) as caught:
        copy(target, source, jobs=1)
    assert "trust_code = true" in (caught.value.hint or "")
    assert not has_slot(source)
    copy(target, source, jobs=1, trust_code=True, is_restart=True)


def test_range_type_keeps_its_values_without_the_function_that_only_indexes_use(source, target):
    source.execute(
        """
        create schema app;
        create function app.difference(float8, float8) returns float8 language sql immutable
            as 'select $1 - $2';
        create type app.span as range (subtype = float8, subtype_diff = app.difference);
        create table app.t (id integer primary key, value app.span);
        insert into app.t values (1, '[1,2)');
        """
    )
    report = copy(target, source, jobs=1)
    assert ("range difference", "subtype_diff of app.span") in named(report)
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_code_needs_neither_tables_that_are_not_copied_nor_extensions(source, target):
    source.execute(
        """
        create extension pg_trgm;
        create schema app;
        create table app.hidden (id integer primary key);
        create function app.is_known(integer) returns boolean language sql stable
            begin atomic; select exists (select from app.hidden where id = $1); end;
        create table app.t (id integer primary key, note text,
            constraint known check (app.is_known(id) or true),
            constraint alike check (similarity(note, 'x') < 1));
        create unique index t_known on app.t (note) where similarity(note, 'x') > 0;
        insert into app.t values (1, 'note');
        """
    )
    chosen = TableSelection.of(["app.t"])
    report = copy(target, source, jobs=1, tables=chosen)
    skipped = {
        ("check", "known of app.t"),
        ("check", "alike of app.t"),
        ("index", "t_known of app.t"),
    }
    assert skipped <= named(report)
    target.execute("create extension pg_trgm")
    report = copy(target, source, jobs=1, tables=chosen, is_restart=True)
    assert named(report) & skipped == {("check", "known of app.t")}


def test_rows_of_every_type_arrive_without_code(source, target):
    make_objects(source, target)
    report = copy(target, source, jobs=1)
    for schema in ("shop", "kit", 'Odd.Schema "q"'):
        expected = checksums(source, schema)
        expected.pop("scratch", None)
        assert checksums(target, f"{source.name}_{schema}") == expected
    assert {item for item in named(report) if item[0] in SKIPPED and " of " in item[1]} == {
        ("check", "serials_n_check of shop.serials"),
        ("default", "code of shop.everything"),
        ("default", "whole of shop.everything"),
        ("domain check", "above_zero of shop.positive"),
        ("generated column", "doubled of shop.everything"),
        ("generated column", "more of shop.everything"),
        ("index", "everything_expression of shop.everything"),
    }


def test_views_show_nothing_but_the_sources_own(source, target):
    source.execute(
        """
        create schema app;
        create table app.t (id integer primary key, doc xml);
        create materialized view app.hashes as select rolname, rolpassword from pg_authid;
        create materialized view app.rows_of_others as select stavalues1::text from pg_statistic;
        create view app.busy as select query from pg_stat_activity;
        create view app.known as select table_name::text from information_schema.tables;
        create view app.hidden as select id from app.t where id in
            (select oid::integer from pg_class);
        create view app.rows_of_xml as select x.name from
            xmltable('/a' passing '<a/>' columns name text path '@name') x;
        create view app.fine as select id from app.t;
        create view app.finer as select id from app.fine join app.t using (id);
        """
    )
    report = copy(target, source, jobs=1, with_views=True)
    assert named(report) == {
        ("materialized view", "app.hashes"),
        ("materialized view", "app.rows_of_others"),
        ("view", "app.busy"),
        ("view", "app.known"),
        ("view", "app.hidden"),
        # The grammar cannot print it.
        ("view", "app.rows_of_xml"),
    }
    assert 'it reads "pg_authid", which is not the source\'s' in {
        item.reason for item in report.left_out
    }
    assert target.rows(
        "select relname::text from pg_class where relkind in ('v', 'm')"
        f" and relnamespace = '{source.name}_app'::regnamespace order by 1"
    ) == [("fine",), ("finer",)]


@pytest.mark.parametrize(
    "lie",
    [
        "0) inherits (victim_app.t); /*",
        "0, foreign key (id) references victim_app.t); /*",
        "0, like victim_app.t including all); /*",
        "0, more victim_app.t); /*",
    ],
)
def test_catalogue_that_lies_leads_to_no_schema_of_others(source, target, lie):
    # Of columns: a superuser replaces what pg_dump asks, and what it prints is another table.
    target.execute(VICTIM, "create table victim_app.t (id integer primary key)")
    source.execute(
        "create schema app",
        "create table app.a (id integer default 1)",
        "create table app.b (id integer default 2)",
        "create or replace function pg_catalog.pg_get_expr(pg_node_tree, oid) returns text"
        " language sql as $$ select case $2::regclass::text"
        f" when 'app.a' then '{lie}'"
        " when 'app.b' then '*/ create table app.b (id integer default 0'"
        " else pg_get_expr($1, $2, false) end $$",
    )
    with pytest.raises(SourceError, match="victim_app"):
        copy(target, source, jobs=1)
    assert (
        target.value(
            "select count(*) from pg_depend where refobjid = 'victim_app.t'::regclass"
            " and classid = 'pg_class'::regclass and deptype = 'n'"
        )
        == 0
    )
    assert not has_slot(source)
