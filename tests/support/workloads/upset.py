"""Tables that are written to, truncated, altered, renamed and swapped while they are copied.

Each row has a seal over its values and the tag of its table: a row that never existed, or that is
of another table, is known when it is seen.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg

from tests.support.database import Database

_TABLE = """
create table app.{name} (id int {key}, n bigint not null, body text, tag text not null
  default '{name}', seal text not null)
"""
TABLES = "\n".join(
    [
        "create schema app;",
        *(_TABLE.format(name=name, key="primary key") + ";" for name in ("items", "twin")),
        (
            'create table app.codes (part int, code text collate "C", n bigint not null,'
            " tag text not null default 'codes', seal text not null, primary key (code, part));"
        ),
        _TABLE.format(name="days", key="not null") + "partition by range (id);",
        "create table app.days_1 partition of app.days for values from (0) to (200);",
        "create table app.days_2 partition of app.days for values from (200) to (1000);",
        "alter table app.days add primary key (id);",
        _TABLE.format(name="plain", key="not null") + ";",
        "alter table app.plain replica identity full;",
    ]
)
_SEAL = "md5(tag || ' ' || {} || ' ' || {})"
_KEYS = 400
_ROWS = (
    "insert into app.{name} (id, n, body, tag, seal) select g, g, repeat('b', 2500), '{name}',"
    " md5('{name} ' || g || ' ' || g) from generate_series(1, {count}, 2) g"
)
FILL = [
    *(_ROWS.format(name=name, count=_KEYS) for name in ("items", "twin", "days", "plain")),
    (
        "insert into app.codes (part, code, n, seal) select g % 3, g::text, g,"
        f" md5('codes ' || g::text || ' ' || g) from generate_series(1, {_KEYS}, 2) g"
    ),
]
_PASSING = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.CheckViolation,
    psycopg.errors.DatatypeMismatch,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedObject,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateColumn,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.WrongObjectType,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.ObjectInUse,
    psycopg.errors.InvalidTableDefinition,
)
#: A table keeps its tag, whatever it is called by now: one that is copied in chunks has rows of
#: before and after it for a while.
_REFILL = """
do $$
declare own text := coalesce((select tag from app.{name} limit 1), '{name}');
begin
  truncate app.{name};
  insert into app.{name} (id, n, body, tag, seal)
    select g, g, repeat('b', 2500), own, md5(own || ' ' || g || ' ' || g)
      from generate_series(1, {count}, 2) g;
end $$
"""
#: Each is one transaction.
_HAPPENINGS = (
    (_REFILL.format(name="items", count=_KEYS // 2),),
    (_REFILL.format(name="days", count=_KEYS),),
    ("alter table app.items add x int default 3",),
    ("alter table app.items drop x",),
    ("alter table app.codes add y text default 'y'",),
    ("alter table app.codes drop y",),
    ("alter table app.days add z int",),
    ("alter table app.days drop z",),
    ("alter table app.items alter n type numeric",),
    ("alter table app.items alter n type bigint",),
    ("alter table app.items rename to goods",),
    ("alter table app.goods rename to items",),
    ("alter table app.codes rename to marks", "alter table app.marks rename to codes"),
    (
        "alter table app.items rename to other",
        "alter table app.twin rename to items",
        "alter table app.other rename to twin",
    ),
    ("alter table app.items replica identity full",),
    ("alter table app.items replica identity default",),
    ("alter table app.twin drop constraint twin_pkey, add constraint twin_pkey primary key (id)",),
    ("alter table app.days detach partition app.days_2",),
    ("alter table app.days attach partition app.days_2 for values from (200) to (1000)",),
    ("create table app.days_3 partition of app.days for values from (1000) to (2000)",),
    ("drop table app.days_3",),
    (_TABLE.format(name="fresh", key="primary key"), _ROWS.format(name="fresh", count=_KEYS)),
    ("drop table app.fresh",),
    ("alter schema app rename to shelf", "alter schema shelf rename to app"),
)
NAMES = ("items", "twin", "codes", "days", "days_2", "plain", "goods", "fresh")


def upset(source: Database, dice: random.Random) -> Callable[[threading.Event], None]:
    """Return what does DDL and TRUNCATE, again and again."""

    def run(stop: threading.Event) -> None:
        with psycopg.connect(source.dsn()) as connection:
            connection.execute("set lock_timeout = '1s'")
            connection.commit()
            while not stop.wait(dice.choice((0.1, 0.3, 1.0))):
                try:
                    for statement in dice.choice(_HAPPENINGS):
                        connection.execute(statement.encode())
                    connection.commit()
                except _PASSING:
                    connection.rollback()

    return run


def write(source: Database, dice: random.Random) -> Callable[[threading.Event], None]:
    """Return what writes rows, again and again."""

    def run(stop: threading.Event) -> None:
        with psycopg.connect(source.dsn()) as connection:
            connection.execute("set lock_timeout = '300ms'")
            connection.commit()
            while not stop.wait(dice.choice((0.0, 0.005, 0.02))):
                try:
                    _transact(connection, dice, stop)
                except _PASSING:
                    connection.rollback()

    return run


def _transact(connection: psycopg.Connection, dice: random.Random, stop: threading.Event) -> None:
    for _ in range(dice.choice((1, 1, 3))):
        connection.execute("savepoint s")
        with suppress(psycopg.errors.UniqueViolation):
            _write(connection, dice)
            if dice.random() < 0.8:
                connection.execute("release s")
                continue
        connection.execute("rollback to s")
    if dice.random() < 0.05:
        stop.wait(0.5)
    if dice.random() < 0.1:
        connection.rollback()
    else:
        connection.commit()


def _write(connection: psycopg.Connection, dice: random.Random) -> None:
    name = dice.choice(("items", "items", "twin", "codes", "days", "plain", "fresh"))
    key, other, n = (dice.randrange(_KEYS) for _ in range(3))
    column = "code" if name == "codes" else "id"
    value = {"key": str(key) if name == "codes" else key, "n": n}
    value["other"] = str(other) if name == "codes" else other
    where = f" where {column} = %(key)s"
    match dice.randrange(4):
        case 0:
            # The long value stays what it was, and is not in the stream.
            text = f"update app.{name} set n = %(n)s, seal = {_SEAL.format(column, '%(n)s')}{where}"
        case 1:
            text = (
                f"update app.{name} set {column} = %(other)s,"
                f" seal = {_SEAL.format('%(other)s', 'n')}{where}"
            )
        case 2:
            text = f"delete from app.{name}{where}"
        case _ if name == "codes":
            text = (
                "insert into app.codes (part, code, n, seal) values (1, %(key)s, %(n)s,"
                " md5('codes ' || %(key)s || ' ' || %(n)s)) on conflict do nothing"
            )
        case _:
            # Whose name it is at this moment, by what its rows say.
            text = (
                f"insert into app.{name} (id, n, body, tag, seal) select %(key)s, %(n)s, 'short',"
                " tag, md5(tag || ' ' || %(key)s || ' ' || %(n)s)"
                f" from (select tag from app.{name} limit 1) x where not exists"
                f" (select from app.{name} where id = %(key)s) on conflict do nothing"
            )
    connection.execute(text.encode(), value)


def look(target: Database, schema: str, renamed: Mapping[str, str]) -> list[tuple[str, object]]:
    """Return what is wrong with tables of the target, if anything is seen to be."""
    wrong: list[tuple[str, object]] = []
    for name in NAMES:
        key = "code" if name == "codes" else "id"
        # These have another key, or none.
        may_repeat = name in ("codes", "plain")
        with suppress(*_PASSING):
            ((found,),) = target.rows(
                f"select (count(*) > 0, count(*) = count(distinct {key}) or {may_repeat},"
                f" bool_and(seal = md5(tag || ' ' || {key} || ' ' || n)),"
                f" count(distinct tag) = 1)::text"
                f' from {schema}."{renamed.get(name, name)}"'
            )
            if found != "(t,t,t,t)":
                wrong.append((name, found))
    return wrong
