"""DDL that cannot be applied stops its source, and a person settles it."""

from __future__ import annotations

import json

import pytest

from pgrepl.errors import DdlStopped, TargetUnavailable
from tests.support.program import run_pgrepl, write_config

SETUP = (
    "create schema app; create table app.a (id int primary key, v text);"
    " insert into app.a values (1, 'x')"
)
RETYPE = "alter table app.a alter v type varchar(9)"
OBSTACLE = "used by a view"


@pytest.fixture
def stopped(follow, tmp_path):
    """A source that stands before an ALTER, because of a view that a user made on the target."""
    following = follow()
    following.run(SETUP)
    following.target.execute("create view public.own as select v from tgt_app.a")
    with pytest.raises(DdlStopped) as caught:
        following.run("begin; insert into app.a values (2, 'y'); " + RETYPE + "; commit")
    following.error = caught.value
    following.file = write_config(
        tmp_path / "pgrepl.toml", following.target.dsn(), {"shop": following.source.dsn()}
    )
    return following


def pgrepl(following, *arguments: str, code: int = 0):
    done = run_pgrepl("ddl", *arguments, "--config", following.file)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def test_stop_names_the_statement_and_applies_nothing_of_its_transaction(stopped):
    assert stopped.error.exit_code == 50
    assert "ALTER TABLE of app.a" in stopped.error.message
    assert OBSTACLE in stopped.error.message
    assert stopped.target.value("select count(*) from tgt_app.a") == 1
    ((original, remapped, decision),) = stopped.pending("original, remapped, decision")
    assert original == RETYPE
    assert remapped == RETYPE.replace("app.a", '"tgt_app".a')
    assert decision is None


def test_pending_shows_what_waits_and_exits_50(stopped):
    done = pgrepl(stopped, "pending", code=50)
    assert RETYPE.replace("app.a", '"tgt_app".a') in done.stdout
    assert OBSTACLE in done.stdout
    (item,) = json.loads(pgrepl(stopped, "pending", "shop", "--json", code=50).stdout)
    assert (item["source"], item["tag"]) == ("shop", "ALTER TABLE")
    assert {item[name][10] + item[name][-1] for name in ("commit_at", "stopped_at")} == {"TZ"}


def test_retry_after_the_cause_is_mended(stopped):
    stopped.target.execute("drop view public.own")
    pgrepl(stopped, "retry", "shop")
    stopped.follow()
    assert stopped.problems("app") == []
    assert stopped.pending() == []
    assert "no DDL waits" in pgrepl(stopped, "pending").stdout


def test_retry_that_fails_again_waits_again(stopped):
    pgrepl(stopped, "retry", "shop")
    with pytest.raises(DdlStopped):
        stopped.follow()
    assert stopped.pending("decision") == [(None,)]


def test_skip_goes_on_without_the_statement_and_is_audited(stopped):
    pgrepl(stopped, "skip", "shop")
    stopped.follow()
    assert stopped.target.value("select count(*) from tgt_app.a") == 2
    assert stopped.target.rows(
        "select outcome, decided_by is not null from replication.ddl_history"
        " where outcome <> 'applied'"
    ) == [("discarded", True)]


def test_edited_statement_runs_instead_and_is_audited(stopped):
    edited = "drop view public.own; alter table tgt_app.a alter v type varchar(9)"
    pgrepl(stopped, "edit", "shop", "--sql", edited)
    stopped.follow()
    assert stopped.problems("app") == []
    assert stopped.target.rows(
        "select outcome, remapped from replication.ddl_history where outcome <> 'applied'"
    ) == [("edited", edited)]


def test_edited_statement_comes_from_a_file(stopped, tmp_path):
    (tmp_path / "fixed.sql").write_text("select 1", encoding="utf-8")
    pgrepl(stopped, "edit", "shop", "--file", str(tmp_path / "fixed.sql"))
    stopped.follow()
    assert stopped.pending() == []


def test_edit_needs_a_statement(stopped):
    assert "--sql" in pgrepl(stopped, "edit", "shop", code=2).stderr


def test_two_statements_of_one_transaction_are_settled_one_after_the_other(follow, tmp_path):
    following = follow()
    following.run(SETUP)
    following.target.execute("create view public.own as select id, v from tgt_app.a")
    following.file = write_config(
        tmp_path / "pgrepl.toml", following.target.dsn(), {"shop": following.source.dsn()}
    )
    with pytest.raises(DdlStopped):
        following.run(f"begin; {RETYPE}; alter table app.a alter id type bigint; commit")
    for _ in range(2):
        waiting = "select from replication.ddl_pending where decision is null"
        assert len(following.target.rows(waiting)) == 1
        pgrepl(following, "skip", "shop")
        try:
            following.follow()
        except DdlStopped:
            continue
    assert following.pending() == []


def test_decision_where_nothing_waits_is_a_usage_error(stopped):
    pgrepl(stopped, "skip", "shop")
    assert "waits at no DDL" in pgrepl(stopped, "skip", "shop", code=2).stderr
    assert "number 999" in pgrepl(stopped, "retry", "shop", "--number", "999", code=2).stderr
    assert "nobody" in pgrepl(stopped, "skip", "nobody", code=2).stderr


def test_difference_after_the_statement_is_reached_and_told(follow):
    following = follow()
    following.run(SETUP)
    following.target.execute("alter table tgt_app.a alter v set default 'other'")
    following.run("alter table app.a add w int")
    assert "default 'other'::text on the target" in following.history("reason")[-1][0]
    assert following.problems("app") == []


def test_difference_that_cannot_be_reached_stops_with_both_sides_shown(follow, tmp_path):
    following = follow()
    following.run(SETUP)
    following.target.execute("alter table tgt_app.a add own int not null default 1")
    following.target.execute("alter table tgt_app.a alter own drop default")
    with pytest.raises(DdlStopped) as caught:
        following.run("alter table app.a add w int")
    assert "differs after it" in caught.value.message
    assert "integer not null on the target" in caught.value.message
    following.file = write_config(
        tmp_path / "pgrepl.toml", following.target.dsn(), {"shop": following.source.dsn()}
    )
    pgrepl(following, "retry", "shop", "--accept")
    following.follow()
    columns = "select count(*) from information_schema.columns where table_name = 'a'"
    assert following.target.value(f"{columns} and column_name = 'w'") == 1


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a add w int",
        "alter table app.a rename to b",
        "alter schema app rename to ap2",
        "create unique index on app.a (v)",
    ],
)
def test_ddl_on_a_parked_table_stops(follow, ddl):
    following = follow()
    following.run(SETUP, "create table app.other (id int primary key)")
    following.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
        " values (1, 'app', 'a', 'x')"
    )
    following.run("alter table app.other add w int")
    with pytest.raises(DdlStopped, match="parked"):
        following.run(ddl)


def test_table_that_is_locked_is_no_stop_but_a_reason_to_try_again(follow, monkeypatch):
    monkeypatch.setattr("pgrepl.ddl_capture.apply.target_session.LOCK_TIMEOUT", "100ms")
    following = follow()
    following.run(SETUP)
    with following.target.connect() as reader:
        reader.execute("begin")
        reader.execute("select * from tgt_app.a")
        with pytest.raises(TargetUnavailable):
            following.run("alter table app.a add w int")
    assert following.pending() == []
    following.follow()
    assert following.problems("app") == []


def test_event_of_a_transaction_that_is_in_a_later_copy_is_passed_over(follow):
    following = follow()
    following.run(SETUP)
    following.source.execute("alter table app.a add w int")
    # As a resync leaves it: the copy has the column, and the table's start lies after it.
    following.target.execute(
        "alter table tgt_app.a add w int",
        "update replication.source_table set start_lsn = 'FF/0' where table_name = 'a'",
    )
    following.follow()
    assert following.history()[-1] == ("skipped", "ALTER TABLE")
    assert following.pending() == []


def test_drop_of_a_parked_table_ends_the_parking(follow):
    following = follow()
    following.run(SETUP)
    following.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
        " values (1, 'app', 'a', 'x')"
    )
    following.run("drop table app.a; create table app.a (id int)")
    assert following.target.value("select count(*) from replication.parked_table") == 0
    assert following.problems("app") == []


def test_drop_of_a_partitioned_table_ends_the_parking_of_its_partitions(follow):
    following = follow()
    following.run(
        "create schema app; create table app.p (id int) partition by list (id);"
        " create table app.p1 partition of app.p default"
    )
    following.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
        " values (1, 'app', 'p1', 'x'), (1, 'app', 'never_made', 'x')"
    )
    following.run("drop table app.p")
    parked = "select table_name::text from replication.parked_table"
    assert following.target.rows(parked) == [("never_made",)]


def test_statement_that_cannot_be_told_for_certain_is_replaced_by_what_it_left(follow):
    following = follow()
    functions = (
        "create function app.f() returns void language sql as 'create table app.x ()';"
        " create function app.f(int) returns void language sql as 'create table app.y ()'"
    )
    following.run(SETUP, functions, "select app.f()")
    assert "was not run" in following.history("reason")[-1][0]
    assert following.pending() == []
    drops = functions.replace("app.f", "app.g").replace("create table", "drop table")
    following.run(drops.replace(" ()'", "'"))
    with pytest.raises(DdlStopped):
        following.run("select app.g()")
    assert len(following.pending()) == 1


def test_statement_of_an_extension_that_the_target_lacks_stops_with_the_reason(follow):
    following = follow()
    following.run(SETUP, "create extension hstore")
    with pytest.raises(DdlStopped, match="does not exist"):
        following.run("alter table app.a add h public.hstore")
    following.target.execute("create schema ext", "create extension hstore schema ext")
    following.follow()
    assert following.pending() == []


def test_type_that_needs_what_the_target_has_not_is_skipped_and_a_table_of_it_stops(follow):
    following = follow()
    following.run(
        "create schema app; create type app.base",
        "create function app.base_in(cstring) returns app.base language internal immutable strict"
        " as 'int4in'; create function app.base_out(app.base) returns cstring language internal"
        " immutable strict as 'int4out'",
        "create type app.base (input = app.base_in, output = app.base_out, like = int4)",
        "create domain app.number as app.base; create type app.pair as (x app.base, y int)",
        "alter domain app.number set not null; alter type app.pair add attribute z int",
        "create table app.t (id int primary key)",
    )
    assert following.pending() == []
    skipped = [tag for outcome, tag in following.history() if outcome == "skipped"]
    assert [tag for tag in skipped if tag != "CREATE FUNCTION"] == [
        *("CREATE TYPE", "CREATE TYPE", "CREATE DOMAIN", "CREATE TYPE")
    ]
    with pytest.raises(DdlStopped, match='number" does not exist'):
        following.run("create table app.u (x app.number)")
