"""A statement means on the target what it meant under the settings of its session."""

from __future__ import annotations

import psycopg

from pgrepl.ddl_capture.apply.target_session import in_force, make_environment

PARIS = "set timezone = 'Europe/Paris'"
GERMAN = "set datestyle = 'German'"

TABLE = (
    "create table app.{t} (id int primary key, n int, at timestamptz, ts timestamp, d date, s text,"
    " f float8, i interval);"
    " insert into app.{t} values (1, 1, '2024-01-02 03:04:05+00', '2024-01-02 03:04:05',"
    " '2024-01-02', '02.01.2024', 0.1, '1 day 02:03:04')"
)

#: Settings of the session, and a statement whose rows the target computes itself.
SAME = {
    "literal": (GERMAN, "alter table app.{t} add c date default '03.02.2024'"),
    "in_using": (GERMAN, "alter table app.{t} alter n type date using '03.02.2024'::date + n"),
    "in_zone": (PARIS, "alter table app.{t} add c timestamptz default '2024-07-01 00:00'"),
    "in_array": (PARIS, "alter table app.{t} add c timestamptz[] default '{{2024-07-01 00:00}}'"),
    "in_range": (PARIS, "alter table app.{t} add c tstzrange default '[2024-07-01,2024-07-02)'"),
    "in_domain": (
        PARIS,
        (
            "create domain app.moment as timestamptz;"
            " alter table app.{t} add c app.moment default '2024-07-01'"
        ),
    ),
    "in_composite": (
        PARIS,
        (
            "create type app.pair as (a int, at timestamptz);"
            " alter table app.{t} add c app.pair default '(1,2024-07-01)'"
        ),
    ),
    "interval": (
        "set intervalstyle = 'sql_standard'",
        "alter table app.{t} add c interval default '-1 02:03:04'",
    ),
    "no_null": ("set array_nulls = off", "alter table app.{t} add c text[] default '{{null}}'"),
    "equals_null": (
        "set transform_null_equals = on",
        "alter table app.{t} alter n type boolean using n = null",
    ),
    "escapes": (
        "set standard_conforming_strings = off",
        r"alter table app.{t} add c text default 'a\\b\'; x', add /* it's */ e text default '\tc'",
    ),
    "check_of": (GERMAN, "alter table app.{t} add check (d < '03.02.2034')"),
    "default_of": (PARIS, "alter table app.{t} alter at set default '2024-07-01 00:00'"),
    "index_of": (GERMAN, "create unique index on app.{t} (n) where d > '03.02.2004'"),
    "parts_of": (
        f"{GERMAN}; {PARIS}",
        (
            "create table app.x_{t} (at timestamptz) partition by range (at);"
            " create table app.y_{t} partition of app.x_{t}"
            " for values from ('03.02.2024') to ('04.02.2024');"
            " insert into app.x_{t} values ('03.02.2024')"
        ),
    ),
    "labels": (
        "",
        (
            "create type app.mood as enum ('sad', 'glad');"
            " alter table app.{t} add c app.mood default 'glad'"
        ),
    ),
    "text": ("", "alter table app.{t} add c text default 'now and today'"),
    "bytes": (
        "set bytea_output = 'escape'",
        "alter table app.{t} alter s type text using s::bytea::text",
    ),
    "digits": ("set extra_float_digits = -9", "alter table app.{t} alter f type text"),
    "json": ("", "alter table app.{t} add c json default '[]', add j jsonb default '{{}}'"),
}

#: Statements whose values nobody but the source knows.
MARKED = {
    "concat": (PARIS, "alter table app.{t} alter n type text using n || ' at ' || at"),
    "range": (PARIS, "alter table app.{t} alter at type text using tstzrange(at, at)"),
    "array": (PARIS, "alter table app.{t} alter at type text using array[at]"),
    "composite": (PARIS, "alter table app.{t} alter at type text using row(at)"),
    "domain": (
        PARIS,
        (
            "create domain app.at_time as timestamptz;"
            " alter table app.{t} alter at type app.at_time; alter table app.{t} alter at type text"
        ),
    ),
    "date": ("set datestyle = 'SQL, DMY'", "alter table app.{t} alter ts type text"),
    "read_date": (GERMAN, "alter table app.{t} alter s type date using s::date"),
    "as_date": (PARIS, "alter table app.{t} alter at type date"),
    "interval_out": ("set intervalstyle = 'iso_8601'", "alter table app.{t} alter i type text"),
    "stable": ("", "alter table app.{t} add c timestamptz default 'now'::text::timestamptz"),
    "user": ("", "alter table app.{t} alter s type text using current_user"),
    "own_setting": (
        "set app.who = 'me'",
        "alter table app.{t} alter s type text using current_setting('app.who')",
    ),
    "clock_in_using": ("", "alter table app.{t} alter at type timestamptz using 'now'"),
    "clock_in_array": ("", "alter table app.{t} alter s type date[] using '{{today}}'"),
    "number_of": ("", "alter table app.{t} alter n type oid using 'pg_class'::regclass"),
    "of_domain": (
        "",
        "create domain app.made as timestamptz default 'now'; alter table app.{t} add c app.made",
    ),
    "of_code": (
        "",
        (
            "create function app.f() returns int immutable language sql as 'select 7';"
            " create domain app.coded as int default app.f(); create domain app.more as app.coded;"
            " alter table app.{t} add c app.more"
        ),
    ),
    "zone_of_today": ("", "alter table app.{t} add c timetz default '12:00'"),
    "transaction": ("", "alter table app.{t} alter n type bigint using txid_current()"),
}


def run_cases(following, cases):
    following.source.execute("create schema app")
    for name, (settings, ddl) in cases.items():
        given = [item for item in settings.split("; ") if item]
        with psycopg.connect(following.source.dsn(), autocommit=True) as session:
            for message in (TABLE.format(t=name), *given, ddl.format(t=name)):
                session.execute(message.encode())
    following.follow()


def check(following, marked):
    assert following.pending() == []
    assert set(following.resyncs()) == set(marked)
    problems = following.problems("app")
    assert {item[2] for item in problems if item[0] == "rows"} <= set(marked)
    # The default of a domain is not compared: columns get their values with the rows.
    assert [item for item in problems if item[0] != "rows" and item[1] != "type"] == []


def test_statements_mean_what_they_meant_on_the_source(follow):
    following = follow()
    run_cases(following, SAME | MARKED)
    check(following, MARKED)


def test_statements_of_trusted_code_do_too(follow):
    following = follow(trust_code=True)
    same = {name: SAME[name] for name in ("bytes", "in_using", "in_zone")}
    marked = {name: MARKED[name] for name in ("clock_in_array", "concat", "read_date")}
    run_cases(following, same | marked)
    check(following, marked)


def test_rows_of_an_older_capture_mark_what_rests_on_settings(follow):
    following = follow()
    following.source.execute(
        "alter table pgrepl.ddl_log alter settings set default null",
        "create function pgrepl.forget() returns trigger language plpgsql as"
        " 'begin new.settings = null; new.locale = null; return new; end'",
        "create trigger forget before insert on pgrepl.ddl_log"
        " for each row execute function pgrepl.forget()",
    )
    using = "alter table app.{t} alter n type date using '2024-02-03'::date + n"
    same = {name: SAME[name] for name in ("digits", "json", "labels", "text")}
    run_cases(following, {"in_using": ("", using), **same})
    assert set(following.resyncs()) == {"digits", "in_using"}


def test_values_of_settings_that_the_target_does_not_know_are_named(target):
    given = {"TimeZone": "Mars/Olympus", "DateStyle": "German, DMY", "lc_monetary": "C"}
    with target.connect() as connection, connection.transaction():
        environment = make_environment(connection, (), given)
        assert environment.lacking == {"TimeZone"}
        with in_force(connection, environment):
            shown = connection.execute("select '2024-01-02'::date::text").fetchone()
        assert shown == ("02.01.2024",)
        assert connection.execute("show datestyle").fetchone() == ("ISO, MDY",)
