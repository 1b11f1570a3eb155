"""What comes only with ``[ddl] include``: each kind made, changed and dropped, and compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.ddl.following import Following

SETUP = (
    "create schema app; create table app.a (id int primary key, note text, n int);"
    " create table app.b (id int primary key); insert into app.a values (1, 'x', 1);"
    " create sequence app.s"
)
VIEWS = (
    "select viewname::text, definition, reloptions::text from pg_views v"
    " join pg_class c on c.oid = format('%I.%I', schemaname, viewname)::regclass"
    " where schemaname = '{}' order by 1"
)
FUNCTIONS = (
    "select proname::text, pg_get_functiondef(oid) from pg_proc"
    " where pronamespace = '{}'::regnamespace order by 1, 2"
)
TRIGGERS = (
    "select tgname::text, pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c"
    " on c.oid = tgrelid where relnamespace = '{}'::regnamespace and not tgisinternal order by 1"
)
POLICIES = (
    "select policyname::text, permissive, roles::text, cmd, qual, with_check, relrowsecurity"
    " from pg_policies join pg_class c on c.oid = format('%I.%I', schemaname, tablename)::regclass"
    " where schemaname = '{}' order by 1"
)
#: Without what the owner has, which is another role here.
GRANTS = (
    "select relname::text, x.privilege_type from pg_class c cross join aclexplode(relacl) x"
    " where relnamespace = '{0}'::regnamespace and x.grantee <> c.relowner union all"
    " select attname::text, x.privilege_type from pg_attribute join pg_class c on c.oid = attrelid"
    " cross join aclexplode(attacl) x where relnamespace = '{0}'::regnamespace union all"
    " select nspname::text, x.privilege_type from pg_namespace cross join aclexplode(nspacl) x"
    " where nspname = '{0}' and x.grantee <> nspowner order by 1, 2"
)


def sides(following: Following, query: str) -> tuple[list[Any], list[Any]]:
    """Return what a query finds on the source, and on the target with the source's names."""
    here = following.source.rows(query.format("app"))
    there = following.target.rows(query.format("tgt_app"))
    plain = [
        tuple(v.replace("tgt_app", "app") if isinstance(v, str) else v for v in row)
        for row in there
    ]
    return sorted(here), sorted(plain)


def follow_each(following: Following, query: str, *messages: str, left: int) -> None:
    """Run messages one by one, compare after each, and count what is left at the end."""
    for message in messages:
        following.run(message)
        here, there = sides(following, query)
        assert here == there, message
    assert len(here) == left
    assert following.pending() == []
    assert following.problems("app") == []


def test_views_follow(follow):
    following = follow(include=["views"])
    following.run(SETUP)
    follow_each(
        following,
        VIEWS,
        "create view app.v as select id, upper(note) as note from app.a",
        "create or replace view app.v as select id, upper(note) as note, n from app.a where n > 0",
        "set search_path = app; create view w (one, two) with (security_barrier) as"
        " select v.id, b.id from v left join b using (id)",
        "create recursive view app.r (k) as values (1) union all select k + 1 from r where k < 9",
        "alter view app.w rename to x; alter view app.x rename column two to three",
        "alter view app.x set (security_barrier = false); alter view app.v alter n set default 5",
        "create view app.c as select id from app.a where id > 0 with local check option",
        "alter table app.a rename column note to remark; comment on view app.v is 'seen'",
        "drop view app.r, app.c",
        "alter table app.a drop column n cascade",
        "create view app.last as select * from app.a; insert into app.a values (2, 'y')",
        left=1,
    )


def test_functions_and_procedures_follow(follow):
    following = follow(include=["functions"], trust_code=True)
    following.run(SETUP)
    follow_each(
        following,
        FUNCTIONS,
        "create function app.f(x int, y int default 2) returns int language sql immutable"
        " as 'select x + y'",
        "create or replace function app.f(x int, y int default 3) returns int language sql stable"
        " strict as 'select x * y'",
        "create function app.f(text) returns text language plpgsql"
        " as 'begin return upper($1); end'",
        "create function app.atomic() returns bigint begin atomic select count(*) from app.a; end",
        "create procedure app.p(inout x int) language plpgsql as 'begin x := x + 1; end'",
        "alter function app.f(int, int) rename to g; alter function app.g(int, int) immutable",
        "alter procedure app.p(int) set search_path = app",
        "comment on function app.g(int, int) is 'times'",
        "drop function app.f(text); drop procedure app.p",
        "insert into app.a values (2, 'y', 2)",
        left=2,
    )


def test_triggers_follow_and_do_not_fire_in_replay(follow):
    following = follow(include=["functions", "triggers"], trust_code=True)
    following.run(
        SETUP,
        "create function app.t() returns trigger language plpgsql as"
        " 'begin new.note := new.note || $$!$$; return new; end'",
    )
    follow_each(
        following,
        TRIGGERS,
        "create trigger one before insert on app.a for each row execute function app.t()",
        "insert into app.a values (2, 'y', 2)",
        "set search_path = app; create trigger two before update of note on a for each row"
        " when (old.note is distinct from new.note) execute function t()",
        "update app.a set note = 'z' where id = 1",
        "create or replace trigger two before update of n on app.a for each row"
        " execute function app.t()",
        "create trigger three after delete on app.b for each statement execute function app.t()",
        "alter trigger one on app.a rename to first; comment on trigger first on app.a is 'f'",
        "drop trigger two on app.a",
        left=2,
    )


def test_policies_follow(follow):
    following = follow(include=["policies"], trust_code=True)
    following.run(SETUP)
    follow_each(
        following,
        POLICIES,
        "alter table app.a enable row level security",
        "create policy p on app.a using (id > 0)",
        "create policy q on app.a as restrictive for update to public using (n = 1)"
        " with check (note <> 'no')",
        "alter policy p on app.a rename to r; alter policy r on app.a using (id > 5)",
        "insert into app.a values (2, 'y', 2); comment on policy q on app.a is 'q'",
        "drop policy r on app.a",
        "alter table app.a disable row level security",
        left=1,
    )


@pytest.fixture
def reader(source, target):
    """A role that both sides have."""
    name = f"reader_{source.name}"
    for database in (source, target):
        database.execute(f"create role {name}")
    yield name
    for database in (source, target):
        database.execute(f"drop owned by {name}", f"drop role {name}")


def test_grants_follow_where_the_target_has_the_role(follow, reader):
    following = follow(include=["grants"])
    following.run(SETUP)
    follow_each(
        following,
        GRANTS,
        f"grant usage on schema app to {reader}",
        f"grant select, insert on app.a, app.b to {reader}",
        f"grant update (note) on app.a to {reader}; grant usage on sequence app.s to public",
        f"grant select on all tables in schema app to {reader}",
        f"revoke insert on app.a from {reader}",
        f"revoke all on all sequences in schema app from public; revoke all on app.b from {reader}",
        left=3,
    )
    only_here = f"only_{following.source.name}"
    following.source.execute(f"create role {only_here}")
    try:
        following.run(f"grant select on app.a to {only_here}")
        assert following.pending() == []
        ((reason,),) = following.target.rows(
            "select reason from replication.ddl_history order by entry desc limit 1"
        )
        assert reason == "what it is about is not on the target"
    finally:
        following.source.execute(f"drop owned by {only_here}", f"drop role {only_here}")


def test_grants_change_nothing_but_the_sources_own_objects(follow):
    following = follow(include=["grants"], exclude=["secret.*"])
    own = following.source.value("select current_user")
    following.run(
        SETUP,
        "create schema secret; create table secret.s (id int primary key)",
        "grant execute on function pg_catalog.pg_read_file(text) to public",
        "set search_path = pg_catalog, app; grant execute on function pg_read_file(text) to public;"
        " revoke all on a from current_user",
        # Over there it is the owner of a table, here of all of them.
        f"revoke all on app.a, app.b from {own}",
        "grant usage on schema pg_catalog, secret to public; grant all on secret.s to public",
        "set search_path = secret; grant all on s to public",
        "grant usage on language sql to public",
    )
    assert following.pending() == []
    assert not following.target.value(
        "select has_function_privilege('public', 'pg_read_file(text)', 'execute')"
    )
    assert following.target.rows(
        "select distinct relacl from pg_class where relnamespace = 'tgt_app'::regnamespace"
    ) == [(None,)]
    outcomes = following.target.rows(
        "select distinct outcome from replication.ddl_history where tag in ('GRANT', 'REVOKE')"
    )
    assert outcomes == [("skipped",)]
