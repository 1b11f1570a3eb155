"""No code of a source runs on the target: what calls it is skipped, recorded, and copied as values.

The target has the functions already, as a basebackup of an older version brought them along. Each
counts up a sequence when it runs, which no rollback takes back.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgrepl.errors import DdlStopped
from tests.support.ddl.following import Following

TABLES = (
    "create schema app; create table app.a (id int primary key, n int, s text);"
    " insert into app.a values (1, 1, 'x'), (2, 2, 'y');"
    " create table app.other (id int primary key)"
)
#: The same on both sides; what they do besides is the target's sorrow.
CODE = """
create function {s}.vol(int) returns int language plpgsql as 'begin {spy} return $1; end';
create function {s}.im(int) returns int language plpgsql immutable as 'begin {spy} return $1; end';
create function {s}.length(text) returns int language plpgsql immutable
    as 'begin {spy} return 1; end';
create function {s}.plus(int, int) returns int language plpgsql immutable
    as 'begin {spy} return $1 + $2; end';
create operator {s}.<-> (leftarg = int, rightarg = int, function = {s}.plus)
"""


@pytest.fixture
def spied(follow: Callable[..., Following]) -> Callable[..., Following]:
    """Return a function that begins to follow into a target that has the source's functions."""

    def begin(**options) -> Following:
        following = follow(**options)
        following.run(TABLES, CODE.format(s="app", spy=""))
        following.target.execute(
            "create schema spy",
            "create sequence spy.ran",
            CODE.format(s="tgt_app", spy="perform nextval(''spy.ran'');"),
        )
        return following

    return begin


def has_run(following: Following) -> bool:
    return bool(following.target.value("select is_called from spy.ran"))


def skipped(following: Following) -> set[tuple[str, str, str]]:
    return set(
        following.target.rows(
            "select kind, table_name::text, name::text from replication.skipped_code"
        )
    )


def void(following: Following) -> set[str]:
    """Return the tables whose changes are passed over until they are copied again."""
    rows = following.target.rows(
        "select table_name::text from replication.resync_due"
        " join replication.source_table using (source_id, schema_name, table_name)"
        " where state = 'pending'"
    )
    return {name for (name,) in rows}


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("alter table app.a add constraint c check (app.im(n) > 0)", ("check", "a", "c")),
        ("alter table app.a add constraint c check (app.vol(7) > 0)", ("check", "a", "c")),
        ("alter table app.a add check (app.im(n) > 0)", ("check", "a", "a_n_check")),
        (
            "alter table app.a add constraint c check (n operator(app.<->) 1 > 0)",
            ("check", "a", "c"),
        ),
        ("set search_path = app; alter table a add check (im(n) > 0)", ("check", "a", "a_n_check")),
        (
            "set search_path = app; alter table a add check (n <-> 1 > 0)",
            ("check", "a", "a_n_check"),
        ),
        (
            "set search_path = app, pg_catalog; alter table a add check (length(s) > 0)",
            ("check", "a", "a_s_check"),
        ),
        (
            "alter table app.a add check (query_to_xml('select 1', true, true, '') is not null)",
            ("check", "a", "a_check"),
        ),
        ("alter table app.a alter n set default app.vol(1)", ("default", "a", "n")),
        ("alter table app.a alter s set default current_setting('port')", ("default", "a", "s")),
        (
            (
                "alter table app.a add v varchar(9);"
                " alter table app.a alter v set default app.vol(1)::text"
            ),
            ("default", "a", "v"),
        ),
        (
            "alter table app.a add v varchar(9), alter v set default app.vol(1)::text",
            ("default", "a", "v"),
        ),
        ("create index i on app.a (app.im(n))", ("index", "a", "i")),
        ("create index i on app.a (n) where app.im(7) > 0", ("index", "a", "i")),
        ("create unique index i on app.a ((app.im(id)))", ("index", "a", "i")),
        (
            "alter table app.a add constraint x exclude using btree ((app.im(id)) with =)",
            ("exclusion constraint", "a", "x"),
        ),
        ("create statistics app.st on (app.im(n)), id from app.a", ("statistics", "a", "st")),
        ("create domain app.d as int check (app.im(value) > 0)", ("domain check", "d", "")),
        ("create domain app.d as int default app.vol(1)", ("domain default", "d", "")),
        (
            (
                "create domain app.d as int; create table app.b (id int primary key, d app.d);"
                " alter domain app.d add constraint c check (app.im(value) > 0)"
            ),
            ("domain check", "d", "c"),
        ),
        (
            "create table app.b (id int primary key, g int generated always as (app.im(id))stored)",
            ("generated column", "b", "g"),
        ),
        (
            "create table app.b (id int primary key default app.vol(7), check (app.im(id) > 0))",
            ("default", "b", "id"),
        ),
        (
            (
                "create schema un; create function un.f(int) returns int language sql immutable as"
                " 'select 1'; alter table app.a add constraint c check (un.f(n) > 0)"
            ),
            ("check", "a", "c"),
        ),
    ],
)
def test_what_calls_code_is_skipped_and_recorded(spied, ddl, expected):
    following = spied(exclude=["un.*"])
    following.run(
        ddl,
        "insert into app.a values (3, 3, 'z'); update app.a set n = 5 where id = 1;"
        " insert into app.other values (1)",
        "alter table app.a add last int default 7; insert into app.a values (4)",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert expected in skipped(following)
    assert void(following) == set()
    rows = "select * from {} order by 1"
    for table in ("a", "other"):
        mine, theirs = rows.format(f"app.{table}"), rows.format(f"tgt_app.{table}")
        assert following.source.rows(mine) == following.target.rows(theirs)
    reasons = [reason for (reason,) in following.history("reason") if reason]
    assert any("skipped" in reason for reason in reasons)


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a alter n type text using app.vol(n)::text",
        "alter table app.a alter n type int using app.im(7)",
        "alter table app.a alter id type bigint using app.im(id)",
        "alter table app.a alter n type xml using query_to_xml('select 1', true, true, '')",
        "set search_path = app; alter table a alter n type bigint using n <-> n",
        "alter table app.a add x int default app.vol(1)",
        "alter table app.a add x int not null default app.vol(1), add y int",
        "alter table app.a add x int not null default app.im(1)",
        "alter table app.a add x text default pg_read_file('PG_VERSION')",
        "alter table app.a add g int generated always as (app.im(n)) stored",
        "alter table app.a add g int not null generated always as (app.im(id)) stored unique",
    ],
)
def test_values_that_code_gives_rows_are_copied(spied, ddl):
    following = spied()
    following.run(
        ddl,
        "update app.a set s = 'z' where id = 1; delete from app.a where id = 2;"
        " insert into app.other values (1)",
        "alter table app.a add last int default 7; insert into app.a (id) values (4)",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert void(following) == {"a"}
    assert following.target.value("select count(*) from tgt_app.other") == 1
    assert any("does not run here" in reason for (reason,) in following.history("reason") if reason)


def test_later_ddl_goes_on_about_what_was_skipped(spied):
    following = spied()
    following.run(
        "create table app.b (id int primary key, n int default app.vol(1),"
        " g int generated always as (app.im(id)) stored, h int generated always as (app.im(id))"
        " stored, constraint c check (app.im(n) > 0) not valid, check (n > 0));"
        " create unique index i on app.b ((app.im(id)))"
    )
    following.run(
        "alter table app.b validate constraint c",
        "comment on constraint c on app.b is 'c'; comment on index app.i is 'i'",
        "alter table app.b rename constraint c to d; alter index app.i rename to j",
        "alter table app.b rename column g to k",
        "insert into app.b (id) values (1), (2)",
        "alter table app.b alter k drop expression; update app.b set k = 9 where id = 1",
        "alter table app.b add check (n < 100)",
        "alter table app.b rename to b2",
    )
    assert skipped(following) == {
        *(("default", "b2", "n"), ("generated column", "b2", "h"), ("check", "b2", "d")),
        ("index", "b2", "j"),
    }
    following.run(
        "alter table app.b2 drop constraint d; drop index app.j; alter table app.b2 drop h,"
        " alter n drop default",
        "update app.b2 set n = 7 where id = 2",
    )
    assert skipped(following) == set()
    assert not has_run(following)
    assert following.pending() == []
    assert following.resyncs() == {}
    assert [p for p in following.problems("app") if "b2" in str(p)] == []
    following.run("alter table app.b2 add check (app.im(n) > 0); drop table app.b2")
    assert skipped(following) == set()


def test_names_that_postgresql_chooses_are_those_of_the_source(spied):
    following = spied()
    following.run(
        "alter table app.a add check (app.im(n) > 0)",
        "alter table app.a add check (n < 100); alter table app.a add check (n < 200)",
        "alter table app.a drop constraint a_n_check1",
        "create table app.b (n int check (app.im(n) > 0) check (n < 100) check (n < 200))",
        "alter table app.b drop constraint b_n_check1, add last int",
    )
    assert following.pending() == []
    assert following.target.rows(
        "select conname::text, pg_get_constraintdef(oid) from pg_constraint where contype = 'c'"
        " and conrelid = 'tgt_app.b'::regclass"
    ) == [("b_n_check2", "CHECK ((n < 200))")]
    assert following.target.rows(
        "select conname::text from pg_constraint where contype = 'c'"
        " and conrelid = 'tgt_app.a'::regclass"
    ) == [("a_n_check2",)]


def test_what_was_skipped_of_no_table_is_renamed_with_it(spied):
    following = spied(include=["views"])
    following.run(
        "create schema far; create table far.t (id int)",
        "create domain app.d as int constraint c check (app.im(value) > 0) default app.vol(1)",
        "create statistics app.st on n, (app.im(n)) from app.a",
        "create view app.v as select app.im(n) from app.a",
        "set search_path = app; alter domain d rename constraint c to c2",
        "alter domain app.d rename to e; alter statistics app.st rename to st2",
        "alter view app.v rename to w",
        "alter domain app.e set schema far; alter schema far rename to near",
    )
    assert following.target.rows(
        "select kind, schema_name::text, table_name::text, name::text"
        " from replication.skipped_code order by 1, 2, 3"
    ) == [
        ("domain check", "near", "e", "c2"),
        ("domain default", "near", "e", ""),
        ("statistics", "app", "a", "st2"),
        ("view", "app", "w", ""),
    ]


def test_attributes_of_a_type_change(spied):
    following = spied()
    following.run(
        "create type app.ty as (a int, b text)",
        "alter type app.ty alter attribute a type bigint, add attribute c int",
        "create table app.of_it of app.ty; insert into app.of_it values (1, 'x', 2)",
    )
    assert following.pending() == []
    assert following.target.value("select count(*) from tgt_app.of_it") == 1


def test_partition_key_that_is_code_stops_the_source(spied):
    following = spied()
    with pytest.raises(DdlStopped, match="its partition key cannot be computed on the target"):
        following.run("create table app.p (id int) partition by list (app.im(id))")
    assert not has_run(following)


def test_generated_column_that_is_a_plain_one_is_copied_when_it_changes(spied):
    following = spied()
    following.run(
        "create table app.b (id int primary key, g int generated always as (app.im(id)) stored)",
        "insert into app.b values (1)",
        "alter table app.b alter g type numeric",
    )
    assert void(following) == {"b"}
    assert following.pending() == []


def test_copies_of_a_table_with_code_have_none(spied):
    following = spied()
    following.run(
        "create table app.p (id int, n int default app.vol(1), check (app.im(n) > 0))"
        " partition by list (id)",
        "create table app.p1 partition of app.p for values in (app.im(1), 2)",
        "create table app.q (like app.p including all); create table app.l (like app.p including"
        " all); create table app.r () inherits (app.l); insert into app.p values (1, 1), (2, 2);"
        " insert into app.r values (1, 1)",
        "alter table app.p attach partition app.q for values in (app.im(3))",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert following.target.rows("select id from tgt_app.p order by 1") == [(1,), (2,)]


def test_functions_and_triggers_come_only_from_sources_that_are_trusted(spied):
    following = spied(include=["functions", "triggers", "policies"])
    following.run(
        "create schema spy; create sequence spy.ran",
        "create function app.split() returns int language plpgsql immutable as"
        " $$ begin execute 'select nextval(''sp' || 'y.ran'')'; return 1; end $$",
        "create function app.t() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger t before insert on app.a for each row execute function app.t()",
        "alter table app.a enable row level security; create policy p on app.a using (n > 0)",
        "alter table app.a add constraint c check (app.split() > 0)",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert ("check", "a", "c") in skipped(following)
    made = following.target.rows(
        "select proname::text from pg_proc where proname in ('split', 't')"
    )
    assert made == []
    reasons = {reason for (reason,) in following.history("reason") if reason}
    for kind in ("functions", "triggers", "policies"):
        assert f"{kind} are code, and trust_code of the source is false" in reasons


def test_trusted_source_brings_its_code(follow):
    following = follow(include=["functions"], trust_code=True)
    following.run(TABLES, CODE.format(s="app", spy=""))
    assert following.target.value("select count(*) from pg_proc where proname = 'plus'") == 1
    following.run("alter table app.a add constraint c check (app.im(n) > 0)")
    assert ("check", "a", "c") in skipped(following)
    assert "must not be called" in following.history("reason")[-1][0]


def test_sequences_of_others_are_not_counted_up(spied):
    following = spied()
    following.run(
        "create schema spy; create sequence spy.ran;"
        " alter table app.a add c bigint default nextval('spy.ran');"
        " alter table app.a add d bigint default nextval(('spy' || '.ran')::regclass)"
    )
    assert not has_run(following)
    assert following.pending() == []
    assert void(following) == {"a"}


def test_domain_with_code_from_an_older_copy_loses_it_when_it_is_used(spied):
    following = spied()
    following.run("create domain app.d as int; create domain app.e as app.d")
    following.target.execute(
        "alter domain tgt_app.d add constraint c check (tgt_app.im(value) is null or value > 0)",
        "alter domain tgt_app.e set default tgt_app.vol(1)",
        "alter domain tgt_app.e add constraint fine check (value > 0)",
    )
    following.run(
        "alter table app.a add d app.e, add f app.d[]; insert into app.a values (3, 3, 'z', 3)",
        "create table app.b (id int primary key, e app.e); insert into app.b values (1, 1)",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert following.target.value("select count(*) from tgt_app.b") == 1
    assert skipped(following) == {("domain check", "d", "c"), ("domain default", "e", "")}


def test_view_that_calls_code_is_skipped(spied):
    following = spied(include=["views"])
    following.run(
        "create view app.v as select app.im(id) from app.a; create view app.fine as select"
        " upper(s) as s, now() as at from app.a",
        "set search_path = app; create view w as select id <-> n from a",
        "create view app.x as select query_to_xml('select 1', true, true, '') from app.a",
        'alter view app.w rename column "?column?" to c; alter view app.w rename to w2',
        "drop view app.v; create table app.v (id int)",
    )
    assert not has_run(following)
    assert following.pending() == []
    assert skipped(following) == {("view", "w2", ""), ("view", "x", "")}
    assert following.target.rows(
        "select viewname::text from pg_views where schemaname = 'tgt_app'"
    ) == [("fine",)]
