"""New tables arrive when the patterns match; what is skipped stays out, and is recorded."""

from __future__ import annotations

import psycopg
import pytest

TABLE = "create table {} (id int primary key, note text); insert into {} values (1, 'x')"

FOREIGN = (
    "create foreign data wrapper w; create server s foreign data wrapper w;"
    " create foreign table app.f (id int) server s"
)


def table(name: str) -> str:
    return TABLE.replace("{}", name)


PARTITION = "alter table app.p attach partition app.tmp_1 for values from (0) to (10)"


def ready(following) -> set[str]:
    rows = following.target.rows(
        "select schema_name || '.' || table_name from replication.source_table"
        " where state = 'ready'"
    )
    return {name for (name,) in rows}


def on_target(following) -> set[str]:
    rows = following.target.rows(
        "select schemaname || '.' || tablename from pg_tables where schemaname ~ '^tgt_'"
    )
    return {name for (name,) in rows}


def test_table_that_no_pattern_matches_is_not_created(follow):
    following = follow(tables=["app.*"], exclude=["app.secret*"])
    following.run(
        "create schema app; create schema bi",
        table("app.orders"),
        table("app.secrets"),
        table("bi.report"),
        "alter table app.secrets add x int; alter table bi.report add x int",
        "create table app.secret_copy as select * from app.orders",
        "drop table app.secrets, bi.report",
    )
    assert ready(following) == {"app.orders"}
    assert on_target(following) == {"tgt_app.orders"}
    assert following.problems("app") != []
    assert following.pending() == []


def test_first_transaction_of_a_new_table_is_applied_and_its_start_is_its_commit(follow):
    following = follow()
    following.run(
        "begin; create schema app;" + table("app.a") + "; update app.a set note = 'y'; commit"
    )
    assert following.problems("app") == []
    ((start, commit),) = following.target.rows(
        "select t.start_lsn, h.commit_lsn from replication.source_table t,"
        " replication.ddl_history h where h.tag = 'CREATE TABLE'"
    )
    assert start == commit


def test_schema_that_had_no_table_is_made_with_its_first_one(follow):
    following = follow(tables=["app.*"])
    following.source.execute("create schema app", "create schema other")
    following.follow()
    following.target.execute("drop schema tgt_app", "delete from replication.target_schema")
    following.run(table("app.a"), "create type other.mood as enum ('sad')")
    assert following.problems("app") == []
    assert following.target.rows("select source_schema::text from replication.target_schema") == [
        ("app",)
    ]


def test_schema_made_with_its_tables_has_the_replicated_ones(follow):
    following = follow(exclude=["app.secret"])
    following.run(
        "create schema app create table secret (id int) create table a (id int primary key)"
    )
    assert on_target(following) == {"tgt_app.a"}


def test_foreign_key_to_a_table_that_is_left_out_is_left_out(follow):
    following = follow(exclude=["app.secret"])
    following.run(
        "create schema app",
        "create table app.secret (id int primary key)",
        "create table app.a (id int primary key, s int references app.secret,"
        " a int references app.a)",
        "alter table app.a add t int references app.secret, add u int",
        "alter table app.a add constraint late foreign key (u) references app.secret not valid",
        "alter table app.a validate constraint late",
        "alter table app.a drop constraint late",
    )
    keys = following.target.rows(
        "select conname::text from pg_constraint where contype = 'f'"
        " and connamespace = 'tgt_app'::regnamespace"
    )
    assert keys == [("a_a_fkey",)]
    assert following.pending() == []


def test_partition_comes_with_its_root_whatever_its_own_name(follow):
    following = follow(tables=["app.orders"])
    following.run(
        "create schema app",
        "create table app.orders (id int primary key) partition by range (id)",
        "create table app.part_1 partition of app.orders for values from (0) to (10)",
        "insert into app.orders values (1)",
    )
    assert following.problems("app") == []
    assert ready(following) == {"app.orders", "app.part_1"}


def test_table_that_becomes_a_partition_is_made_by_its_first_copy(follow):
    following = follow(tables=["app.orders"])
    following.run(
        "create schema app",
        "create table app.orders (id int primary key, v text) partition by range (id)",
        "create table app.staging (like app.orders including all)",
        "insert into app.staging values (1, 'old')",
        "alter table app.orders attach partition app.staging for values from (0) to (10)",
        "insert into app.orders values (2, 'new')",
    )
    # Its copy will hold this row as well as the old one; nobody sees it before.
    assert following.target.value("select to_regclass('tgt_app.staging')") is None
    assert following.pending() == []
    assert set(following.resyncs()) == {"staging"}


def test_child_of_a_table_that_is_not_replicated_follows_it(follow):
    following = follow(exclude=["hidden.*"])
    following.run(
        "create schema app; create schema hidden",
        "create table hidden.base (id int, v text)",
        "create table app.c (primary key (id)) inherits (hidden.base)",
        "create table app.d () inherits (app.c)",
        "insert into app.c values (1, 'a')",
        "alter table hidden.base add w int default 3, alter v type varchar(9)",
        "insert into app.c values (2, 'b', 4)",
        "insert into app.d values (3, 'c', 5)",
        "alter table hidden.base rename v to x",
        "insert into app.c values (4, 'd', 6)",
        "alter table hidden.base drop w",
        "insert into app.c values (5, 'e')",
    )
    assert following.pending() == []
    # Their rows come with the next copy.
    assert set(following.resyncs()) == {"c", "d"}
    columns = following.target.rows(
        "select attname::text from pg_attribute where attrelid = 'tgt_app.c'::regclass"
        " and attnum > 0 and not attisdropped"
    )
    assert {("id",), ("x",)} <= set(columns)


def test_detach_that_was_cancelled_and_finalized_arrives_with_its_check(follow):
    following = follow()
    following.run(
        "create schema app",
        "create table app.p (id int primary key) partition by range (id)",
        "create table app.p1 partition of app.p for values from (0) to (10)",
    )
    with following.source.connect() as reader:
        reader.execute("begin")
        reader.execute("select from app.p")
        with pytest.raises(psycopg.errors.QueryCanceled):
            following.run(
                "set statement_timeout = '100ms'",
                "alter table app.p detach partition app.p1 concurrently",
            )
    following.run("alter table app.p detach partition app.p1 finalize")
    following.run("insert into app.p1 values (3)")
    assert following.problems("app") == []
    assert following.pending() == []


@pytest.mark.parametrize(
    ("leave", "come_back"),
    [
        ("alter table app.a rename to tmp_a", "alter table app.tmp_a rename to a"),
        ("alter table app.p detach partition app.tmp_1", PARTITION),
    ],
    ids=["rename", "detach"],
)
def test_table_that_leaves_the_patterns_and_comes_back_is_copied_again(follow, leave, come_back):
    following = follow(exclude=["app.tmp*"])
    following.run(
        "create schema app",
        "create table app.a (id int primary key, v text)",
        "create table app.p (id int primary key, v text) partition by range (id)",
        "create table app.tmp_1 partition of app.p for values from (0) to (10)",
        "insert into app.a values (1, 'x'); insert into app.p values (1, 'x')",
        leave,
    )
    name = following.source.value(
        "select oid::regclass from pg_class where relname in ('tmp_a', 'tmp_1')"
        " and not relispartition"
    )
    following.run(f"update {name} set v = 'y'", come_back, "update app.a set v = 'z'")
    assert following.pending() == []
    left = {"app.tmp_a": "a", "app.tmp_1": "tmp_1"}[name]
    assert left in following.resyncs()
    assert f"app.{left}" not in ready(following)
    due = following.target.rows("select table_name::text from replication.resync_due")
    assert (left,) in due


@pytest.mark.parametrize(
    ("leave", "come_back"),
    [
        ("alter table app.a set schema hidden", "alter table hidden.a set schema app"),
        (
            "drop schema hidden; alter schema app rename to hidden",
            "alter schema hidden rename to app",
        ),
    ],
    ids=["table", "schema"],
)
def test_table_that_goes_to_a_schema_left_out_is_none_until_it_comes_back(follow, leave, come_back):
    following = follow(exclude=["hidden.*"])
    following.run(
        "create schema app; create schema hidden",
        "create table app.a (id int primary key, v text); insert into app.a values (1, 'x')",
        leave,
        "insert into hidden.a values (2, 'y')",
    )
    assert (ready(following), following.pending()) == (set(), [])
    # Its name is free.
    following.run(
        "create schema if not exists app; create table app.a (id int primary key, n int)",
        "insert into app.a values (7, 7)",
    )
    assert following.target.rows("select id, n from tgt_app.a") == [(7, 7)]
    following.run(
        "drop table app.a",
        *(["drop schema app"] if "rename" in come_back else []),
        come_back,
        "insert into app.a values (3, 'z')",
    )
    assert (ready(following), following.pending()) == (set(), [])
    assert set(following.resyncs()) == {"a"}
    assert following.target.value("select count(*) from replication.resync_due") == 1


def test_tables_of_a_schema_that_comes_into_the_patterns_are_made_by_their_first_copies(follow):
    following = follow(exclude=["hidden.*"])
    following.run(
        "create schema hidden",
        "create table hidden.a (id int primary key); insert into hidden.a values (1)",
        "alter schema hidden rename to app",
        "insert into app.a values (2)",
    )
    assert (set(following.resyncs()), following.pending()) == ({"a"}, [])
    assert ready(following) == set()


def test_partition_in_a_schema_left_out_comes_with_its_root(follow):
    following = follow(exclude=["hidden.*"])
    following.run(
        "create schema app; create schema hidden",
        "create table app.p (id int primary key) partition by range (id)",
        "create table hidden.p1 (id int primary key)",
        "alter table app.p attach partition hidden.p1 for values from (0) to (10)",
        "insert into app.p values (1)",
    )
    assert (set(following.resyncs()), following.pending()) == ({"p1"}, [])
    following.run("alter table app.p detach partition hidden.p1")
    assert (following.resyncs(), following.pending()) == ({}, [])


def test_table_renamed_into_the_patterns_is_made_by_its_first_copy(follow):
    following = follow(exclude=["app.tmp*"])
    following.run(
        "create schema app",
        "create table app.tmp_1 (id int primary key, v text default 'x' check (v <> ''))",
        "insert into app.tmp_1 values (1)",
        "alter table app.tmp_1 rename to real",
        "insert into app.real values (2)",
    )
    assert following.target.value("select to_regclass('tgt_app.real')") is None
    assert set(following.resyncs()) == {"real"}
    following.run("alter table app.real rename to tmp_2", "insert into app.tmp_2 values (3)")
    assert ready(following) == set()


@pytest.mark.parametrize(
    ("kind", "ddl", "count"),
    [
        (
            "views",
            "create view app.v as select id from app.a",
            "select count(*) from pg_views where schemaname = 'tgt_app'",
        ),
        (
            "functions",
            "create function app.f(x int) returns int language sql immutable as 'select x + 1'",
            "select count(*) from pg_proc where pronamespace = 'tgt_app'::regnamespace",
        ),
        (
            "grants",
            "grant select on app.a to public",
            "select count(*) from pg_class where relname = 'a' and relacl::text ~ '[{,]=r'",
        ),
        (
            "policies",
            "create policy p on app.a using (id > 0)",
            "select count(*) from pg_policies where schemaname = 'tgt_app'",
        ),
    ],
)
def test_other_kinds_come_only_when_they_are_included(follow, kind, ddl, count):
    following = follow()
    following.run("create schema app", table("app.a"), ddl)
    assert following.target.value(count) == 0
    (reason,) = following.target.rows(
        "select reason from replication.ddl_history where outcome = 'skipped'"
    )
    assert kind in reason[0]


@pytest.mark.parametrize("is_included", [False, True])
def test_included_kinds_arrive(follow, is_included):
    kinds = ("views", "functions", "triggers", "grants", "policies")
    following = follow(include=kinds if is_included else (), trust_code=is_included)
    following.run(
        "create schema app",
        table("app.a"),
        "create view app.v as select id, upper(note) as note from app.a",
        "create or replace view app.v as select id, upper(note) as note, 1 as one from app.a",
        "alter view app.v rename to w",
        "create function app.f(x int) returns int language sql immutable as 'select x + 1'",
        "create function app.g() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger tr before insert on app.a for each row execute function app.g()",
        "alter table app.a enable row level security",
        "create policy p on app.a using (id > 0)",
        "grant select on app.a to public",
        "insert into app.a values (2, 'y')",
        "drop function app.f(int)",
    )
    assert following.problems("app") == []
    found = following.target.rows(
        "select (select count(*) from pg_views where schemaname = 'tgt_app' and viewname = 'w'),"
        " (select count(*) from pg_proc where pronamespace = 'tgt_app'::regnamespace),"
        " (select count(*) from pg_trigger where tgname = 'tr'),"
        " (select count(*) from pg_policies where schemaname = 'tgt_app'),"
        " (select relrowsecurity::int from pg_class where oid = 'tgt_app.a'::regclass)"
    )
    assert found == [(1, 1, 1, 1, 1) if is_included else (0, 0, 0, 0, 0)]


def test_owners_tablespaces_and_materialized_views_are_left_out_with_a_reason(follow):
    following = follow(include=["views"])
    following.run(
        "create schema app",
        table("app.a"),
        "create materialized view app.m as select * from app.a",
        "refresh materialized view app.m",
        "create statistics app.s on id, note from app.m",
        "alter table app.a owner to current_user",
        "create rule r as on insert to app.a do also select 1",
        "create operator app.=== (leftarg = int, rightarg = int, function = int4eq)",
        "alter default privileges in schema app grant select on tables to public",
        "drop materialized view app.m",
    )
    assert following.problems("app") == []
    left = following.target.rows(
        "select tag, reason is not null from replication.ddl_history where outcome = 'skipped'"
    )
    assert [reason for _, reason in left] == [True] * len(left)
    assert {tag for tag, _ in left} == {
        "CREATE MATERIALIZED VIEW",
        "CREATE STATISTICS",
        "ALTER TABLE",
        "CREATE RULE",
        "CREATE OPERATOR",
        "ALTER DEFAULT PRIVILEGES",
        "DROP MATERIALIZED VIEW",
    }


def test_type_of_an_extension_stays_with_the_extension_of_the_target(follow):
    following = follow()
    following.target.execute("create schema ext", "create extension citext schema ext")
    following.run(
        "create extension citext",
        "create schema app",
        "create table app.a (id public.citext primary key, b citext default 'X')",
        "insert into app.a values ('A')",
        "alter table app.a add c citext",
    )
    assert following.pending() == []
    types = following.target.rows(
        "select distinct atttypid::regtype::text from pg_attribute"
        " where attrelid = 'tgt_app.a'::regclass and attnum > 0"
    )
    assert types == [("ext.citext",)]
    assert following.target.rows("select id::text from tgt_app.a") == [("A",)]


def test_what_the_target_lacks_of_no_table_is_passed_over(follow):
    following = follow()
    following.run(
        "create schema app",
        table("app.a"),
        "create type app.mood as enum ('sad')",
        "create index i on app.a (note); create sequence app.q",
    )
    # A basebackup copies no plain index, and neither types nor sequences that no table needs.
    following.target.execute(
        "drop type tgt_app.mood", "drop index tgt_app.i", "drop sequence tgt_app.q"
    )
    following.run(
        "alter type app.mood add value 'ok'",
        "alter index app.i rename to j",
        "comment on index app.j is 'x'",
        "alter sequence app.q increment 3",
        "drop index app.j",
        "drop sequence app.q",
        "drop type app.mood",
    )
    assert following.pending() == []
    assert following.problems("app") == []


def test_new_table_without_a_replica_identity_is_noted(follow):
    following = follow()
    following.run(
        "create schema app",
        "create table app.a (id int)",
        "create table app.b (id int primary key)",
    )
    notes = following.target.rows(
        "select original, reason from replication.ddl_history where reason ~ 'replica identity'"
    )
    assert [original for original, _ in notes] == ["create table app.a (id int)"]


def test_unlogged_table_is_left_out_until_it_is_logged(follow):
    following = follow()
    following.run(
        "create schema app",
        "create unlogged table app.u (id int primary key)",
        "insert into app.u values (1)",
        "alter table app.u add v int",
    )
    assert on_target(following) == set()
    following.run("alter table app.u set logged", "insert into app.u values (2, 2)")
    # Its first copy makes it.
    assert on_target(following) == set()
    assert set(following.resyncs()) == {"u"}
    following.run("alter table app.u set unlogged")
    assert following.resyncs() == {}
    following.run("create table app.w (id int primary key)", "alter table app.w set unlogged")
    assert "unlogged" in following.resyncs()["w"]


@pytest.mark.parametrize(
    ("before", "parent", "drop"),
    [
        ("create table hidden.p (id int)", "hidden.p", "drop table hidden.p cascade"),
        (
            FOREIGN,
            "app.f",
            "drop server s cascade",
        ),
    ],
    ids=["excluded", "foreign"],
)
def test_table_that_goes_with_what_is_not_replicated_is_dropped(follow, before, parent, drop):
    following = follow(exclude=["hidden.*"])
    following.run(
        "create schema app; create schema hidden",
        before,
        f"create table app.a (n int primary key) inherits ({parent})",
        "create table app.b (n int references app.a)",
        "insert into app.a values (1, 1)",
    )
    assert ready(following) == {"app.a", "app.b"}
    following.run(
        drop, "create table app.a (other int primary key)", "insert into app.a values (5)"
    )
    assert (following.pending(), following.problems("app")) == ([], [])
    assert following.target.rows("select other from tgt_app.a") == [(5,)]
