"""Whoever writes DDL on a source changes that source's schemas on the target, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from pgrepl.errors import DdlStopped
from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.ddl.following import Following, run_as

ROLE = "pgrepl_applier"
SETUP = (
    "create schema app; create table app.a (id int primary key, v text);"
    " insert into app.a values (1)"
)


@pytest.fixture(scope="module")
def applying_role(target_cluster: Cluster) -> Iterator[str]:
    """A role as docs/ddl.md asks for: no superuser, but it may make schemas."""
    with psycopg.connect(target_cluster.dsn(), autocommit=True) as connection:
        connection.execute(f"create role {ROLE} login")
        yield ROLE
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


@pytest.fixture
def target(bare_target: Database) -> Database:
    """Return a target where the role makes all there is itself."""
    return bare_target


@pytest.fixture
def confined(
    source: Database, target: Database, applying_role
) -> Iterator[Callable[..., Following]]:
    """Return a function that begins to follow into a target with what must not be touched."""
    target.execute(
        f"grant create on database {target.name} to {applying_role}",
        f"grant set on parameter session_replication_role to {applying_role}",
        "create schema bi",
        "create table bi.report (id int)",
        "insert into bi.report values (1)",
        f"grant all on schema bi to {applying_role}",
        f"grant all on bi.report to {applying_role}",
        f"alter table bi.report owner to {applying_role}",
    )

    def begin(**options) -> Following:
        return Following(source, target, target_role=applying_role, **options).begin()

    yield begin
    target.execute(
        f"reassign owned by {applying_role} to current_user", f"drop owned by {applying_role}"
    )


def untouched(following: Following) -> bool:
    return following.target.rows(
        "select (select count(*) from bi.report), (select count(*) from pg_class c"
        " where c.relnamespace = 'bi'::regnamespace), (select count(*) from pg_namespace"
        " where nspname in ('app', 'crm'))"
    ) == [(1, 1, 0)]


def test_role_without_superuser_applies_what_is_allowed(confined):
    following = confined(
        include=("views", "functions", "triggers", "grants", "policies"), trust_code=True
    )
    following.run(
        SETUP,
        "create type app.mood as enum ('sad'); alter table app.a add m app.mood",
        "create view app.v as select * from app.a",
        "create domain app.d as int check (value > 0)",
        "create table app.p (id int primary key, d app.d) partition by range (id)",
        "create table app.p1 partition of app.p default; insert into app.p values (1, 2)",
        "create sequence app.q; alter table app.a alter id set default nextval('app.q')",
        "create function app.f(int) returns int language sql immutable as 'select 1'",
        "alter schema app rename to ap2; drop table ap2.p",
    )
    assert following.problems("ap2") == []
    assert not following.target.value(f"select rolsuper from pg_roles where rolname = '{ROLE}'")


#: Expressions that replay would evaluate with its own rights.
REACHING_OUT = (
    "alter table app.a add check (query_to_xml('select 1', true, true, '') is not null)",
    "alter table app.a add x text default pg_read_file('PG_VERSION')",
    "alter table app.a alter v set default set_config('role', 'postgres', false)",
    "alter table app.a add check (lo_unlink(id::oid) is null or true)",
    "alter table app.a add check (pg_catalog.pg_advisory_lock(1) is not null or true)",
    "alter table app.a alter v set default table_to_xml('app.a', true, true, '')::text",
    "alter table app.a alter v set default current_setting('data_directory')",
    "alter table app.a alter v type text using v || pg_read_file('PG_VERSION')",
    "create domain app.d as text check (query_to_xml('delete from x', true, true, '') is null)",
    "create table app.b (id int, check (pg_terminate_backend(0) or true))",
)


def test_expression_that_reaches_out_is_skipped(confined):
    following = confined()
    following.run(SETUP)
    for ddl in REACHING_OUT:
        following.run(ddl)
        following.run("insert into app.a (id) select max(id) + 1 from app.a")
    assert following.pending() == []
    assert untouched(following)
    assert following.target.value(
        "select count(*) from replication.ddl_history where reason ~ 'skipped'"
    ) == len(REACHING_OUT)


def test_expression_that_reaches_out_is_skipped_of_a_trusted_source_too(confined):
    following = confined(trust_code=True)
    following.run(SETUP)
    for ddl in REACHING_OUT:
        if "domain" in ddl:
            with pytest.raises(DdlStopped, match="must not be called"):
                following.run(ddl)
            following.forget_stops()
        else:
            following.run(ddl)
    assert untouched(following)
    assert (
        following.target.value(
            "select count(*) from replication.ddl_history where reason ~ 'must not be called'"
        )
        == len(REACHING_OUT) - 1
    )


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("create function app.f() returns int language internal as 'now'", "language"),
        (
            "create function app.f() returns int language sql security definer as 'select 1'",
            "SECURITY DEFINER",
        ),
        (
            "create function app.f() returns int language sql set role = postgres as 'select 1'",
            "settings",
        ),
        (
            "create function app.f() returns int language plpgsql as 'begin return app.g(); end'",
            "names a schema",
        ),
        ("create view app.v as select pg_read_file('x') as x", "must not be called"),
        ("create view app.v as select * from pg_catalog.pg_stat_activity", "pg_catalog"),
        ("grant all on app.a to pg_monitor with grant option", "GRANT OPTION"),
    ],
)
def test_other_kinds_cannot_reach_out_either(confined, ddl, reason):
    following = confined(
        include=("views", "functions", "triggers", "grants", "policies"), trust_code=True
    )
    following.run(SETUP)
    with pytest.raises(DdlStopped) as caught:
        following.run(ddl)
    assert reason in caught.value.message
    assert untouched(following)


def test_policy_that_reaches_out_is_not_made(confined):
    following = confined(include=("policies",), trust_code=True)
    following.run(SETUP)
    following.run("create policy p on app.a using (query_to_xml('x', true, true, '') is null)")
    assert "must not be called" in following.history("reason")[-1][0]
    assert following.target.value("select count(*) from pg_policy") == 0


def test_schema_that_exists_on_the_target_under_its_name_stays_out_of_reach(confined, target):
    following = confined()
    target.execute("create schema tgt_crm", "create table tgt_crm.x (id int)")
    with pytest.raises(DdlStopped):
        following.run("create schema crm")
    assert target.rows("select nspname::text from pg_namespace where nspname = 'tgt_crm'")
    following.forget_stops()
    with pytest.raises(DdlStopped, match="not this source"):
        following.run("create table crm.y (id int)")
    following.forget_stops()
    following.run("drop schema crm cascade")
    assert target.value("select count(*) from tgt_crm.x") == 0


def test_schemas_of_the_target_cannot_be_named(confined):
    following = confined(tables=["app.*"])
    following.source.execute("create schema bi", "create table bi.report (id int primary key)")
    following.run(SETUP)
    following.run("create table app.c () inherits (bi.report)")
    assert following.target.value("select count(*) from pg_inherits") == 0
    following.run("set search_path = bi, app; drop table report cascade; drop schema bi")
    assert following.target.value("select count(*) from bi.report") == 1


def test_name_without_a_schema_does_not_lead_to_another_schema(confined, target):
    following = confined(exclude=["app.hidden"])
    target.execute("create extension citext", f"grant all on schema public to {ROLE}")
    target.execute("create table public.hidden (id int primary key)")
    following.run(
        "create extension citext",
        SETUP,
        "create table app.hidden (id int primary key); create table public.t (id int)",
    )
    following.run("set search_path = app, public; create table c () inherits (hidden)")
    assert target.value("select count(*) from pg_inherits") == 0
    following.run("set search_path = app, public; drop table hidden cascade")
    assert target.value("select count(*) from public.hidden") == 0


def test_cascade_does_not_take_along_what_is_not_the_sources(confined, target):
    following = confined()
    following.run(SETUP)
    target.execute("create view bi.v as select id from tgt_app.a")
    for ddl in ("drop table app.a cascade", "alter table app.a drop id cascade"):
        with pytest.raises(DdlStopped, match="CASCADE"):
            following.run(ddl)
        following.forget_stops()
        following.source.execute("drop schema app cascade", SETUP)
        following.forget_stops()
    assert target.value("select count(*) from bi.v") == 1


@pytest.mark.parametrize(
    "default",
    [
        "nextval('bi.count')",
        "nextval('bi.count'::text::regclass)",
        "nextval(('bi' || '.count')::regclass)",
        "nextval('count')",
    ],
)
def test_sequence_of_somebody_else_is_not_counted_up(confined, target, default):
    target.execute("create extension citext schema bi", "create sequence bi.count")
    target.execute(f"alter sequence bi.count owner to {ROLE}")
    following = confined(tables=["app.*"])
    following.run(
        SETUP, "create schema bi; create extension citext schema bi; create sequence bi.count"
    )
    following.run(f"set search_path = app, bi; alter table app.a add c bigint default {default}")
    assert following.pending() == []
    assert set(following.resyncs()) == {"a"}
    assert target.value("select is_called from bi.count") is False


def test_triggers_never_fire_during_replay(confined, target):
    following = confined(include=("functions", "triggers"), trust_code=True)
    following.run(
        SETUP,
        "create function app.g() returns trigger language plpgsql as"
        " $$ begin insert into bi.report values (2); return new; end $$",
        "create trigger tr before insert on app.a for each row execute function app.g();"
        " alter table app.a enable always trigger tr",
        "create schema bi; create table bi.report (id int)",
        "insert into app.a values (2)",
    )
    assert target.value("select count(*) from bi.report") == 1
    assert target.value("select tgenabled from pg_trigger where tgname = 'tr'") == "O"


@pytest.fixture
def ordinary_user(source: Database) -> Iterator[str]:
    source.execute("create role mallory login")
    yield "mallory"
    source.execute("drop owned by mallory", "drop role mallory")


def test_ordinary_user_cannot_forge_a_captured_statement(follow, ordinary_user):
    following = follow()
    source = following.source
    source.execute(
        "create schema app authorization mallory",
        "create schema safe",
        "create table safe.victim (id int primary key)",
    )
    following.follow()
    for attempt in (
        "insert into pgrepl.ddl_log (kind, tag) values ('end', 'DROP TABLE')",
        "select * from pgrepl.ddl_log",
        "update pgrepl.ddl_log set query = 'drop table victim'",
        "select pgrepl.ddl_capture()",
        "select pgrepl.table_definition(1)",
        "create table pgrepl.x ()",
        "alter event trigger pgrepl_ddl_command_end_1 disable",
        "set session_replication_role = replica",
    ):
        with pytest.raises(psycopg.Error):
            run_as(source, ordinary_user, attempt)
    following.follow()
    assert following.problems("safe") == []


def test_ordinary_user_cannot_pass_a_statement_off_as_one_that_ran(follow, ordinary_user):
    following = follow()
    following.run(
        "create schema app authorization mallory; create schema safe",
        "create table safe.victim (id int primary key, keep text)",
    )
    run_as(following.source, ordinary_user, "create table app.mine (id int primary key)")
    following.follow()
    # The second statement fails, but stands in the message of the first; the count is the user's.
    message = (
        "select set_config('pgrepl.count', extract(epoch from statement_timestamp())::text || ' '"
        " || lpad(to_hex(hashtextextended(current_query(), 0)), 16, '0') || '=1 ', false);"
        " alter table app.mine add x int; commit;"
        " alter table safe.victim drop column keep"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_as(following.source, ordinary_user, message)
    following.follow()
    assert "did not touch" in following.history("reason")[-1][0]
    assert following.problems("safe", "app") == []


def test_rows_of_a_table_with_the_logs_name_elsewhere_are_only_rows(follow):
    following = follow()
    following.run(
        "create schema app; create table app.ddl_log (id int primary key, kind text, query text)",
        "insert into app.ddl_log values (1, 'end', 'drop schema app cascade')",
    )
    assert following.problems("app") == []


@pytest.mark.parametrize("place", ["pg_catalog", "information_schema", "pgrepl"])
def test_nothing_of_a_source_is_moved_into_schemas_of_the_target_s_own(follow, place):
    following = follow()
    following.run(
        "create schema app; create table app.t (id serial primary key, a int);"
        " insert into app.t (a) values (1); create table app.u (id int primary key);"
        " create type app.ty as (a int); create sequence app.sq; create domain app.d as int"
    )
    following.run(
        f"alter table app.t set schema {place}",
        f"insert into {place}.t (a) values (2); insert into app.u values (1)",
        f"alter type app.ty set schema {place}; alter sequence app.sq set schema {place};"
        f" alter domain app.d set schema {place}",
    )
    assert following.pending() == []
    strangers = following.target.rows(
        "select relname from pg_class where oid >= 16384 and relnamespace in"
        " (select oid from pg_namespace where nspname in ('pg_catalog', 'information_schema',"
        " 'pgrepl')) union all select typname from pg_type where oid >= 16384 and typnamespace in"
        " (select oid from pg_namespace where nspname in ('pg_catalog', 'information_schema',"
        " 'pgrepl'))"
    )
    assert strangers == []
    # A table of that name may follow it.
    following.run("create table app.t (id int primary key); insert into app.t values (7)")
    assert following.pending() == []
    assert following.target.rows("select id from tgt_app.t") == [(7,)]
