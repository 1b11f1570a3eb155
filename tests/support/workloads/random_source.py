"""Random transactions over several tables, all kinds of changes among them."""

from __future__ import annotations

import random

import psycopg
from psycopg import Connection, errors

from tests.support.database import Database

TABLES = """
create table plain (id int primary key, u int unique, n numeric, note text);
create table wide (a int, b text, body text, n int, g int generated always as (n * 2) stored,
                   primary key (a, b));
alter table wide alter body set storage external;
create table bag (x int, y text);
alter table bag replica identity full;
create table whole (id int generated always as identity primary key, x int, body text);
alter table whole replica identity full, alter body set storage external;
create table by_index (id int, k int not null, n int);
create unique index by_index_k on by_index (k);
alter table by_index replica identity using index by_index_k;
create table parts (id int, place int, n int, primary key (id, place)) partition by list (place);
create table parts_0 partition of parts for values in (0);
create table parts_1 partition of parts for values in (1);
insert into plain select g, g, g, 'note ' || g from generate_series(1, 15) g;
insert into wide select g, 'b', repeat(md5(g::text), 80), g from generate_series(1, 15) g;
insert into bag select g % 4, 'y' from generate_series(1, 12) g;
insert into whole (x, body) select g, repeat(md5(g::text), 80) from generate_series(1, 15) g;
insert into by_index select g, g, g from generate_series(1, 15) g;
insert into parts select g, g % 2, g from generate_series(1, 15) g;
"""

#: {a} and {b} are numbers of rows that may or may not be there, {x} is any number.
CHANGES = [
    "insert into plain values ({a}, {x}, {x}.50, E'n\\t{x}\\\\\"')",
    "insert into plain values ({a}, null, null, null)",
    "update plain set n = n + 1, note = note || 'x' where id in ({a}, {b})",
    "update plain set id = {b} where id = {a}",
    "update plain set u = {x} where id = {a}",
    "delete from plain where id = {a}",
    "insert into wide values ({a}, 'b', repeat(md5('{x}'), 80), {x})",
    "update wide set n = {x} where a in ({a}, {b})",
    "update wide set body = repeat(md5('{x}'), 80) where a = {a}",
    "update wide set a = {b} where a = {a}",
    "update wide set b = 'c{x}', body = null where a = {a}",
    "delete from wide where a = {a}",
    "insert into bag values ({a}, 'y'), ({a}, null)",
    "update bag set y = 'z{x}' where ctid = (select min(ctid) from bag where x = {a})",
    "update bag set x = {b} where x = {a}",
    "delete from bag where ctid = (select max(ctid) from bag)",
    "insert into whole (x, body) values ({x}, repeat(md5('{x}'), 80))",
    "update whole set x = {x} where id = {a}",
    "update whole set body = 'short' where id = {a}",
    "delete from whole where id = {a}",
    "insert into by_index values ({a}, {b}, {x})",
    "update by_index set n = {x} where k = {a}",
    "update by_index set k = {b} where k = {a}",
    "delete from by_index where k = {a}",
    "insert into parts values ({a}, {x} % 2, {x})",
    "update parts set place = 1 - place where id = {a}",
    "update parts set n = {x} where id in ({a}, {b})",
    "delete from parts where id = {a}",
]
#: Two rows change places; seldom: they need both rows.
SWAPS = [
    (
        "update plain set id = -1 where id = {a}; update plain set id = {a} where id = {b};"
        " update plain set id = {b} where id = -1"
    ),
    (
        "update plain set u = -{a} where id = {a}; update plain set u = {a} where id = {b};"
        " update plain set u = {b} where id = {a}"
    ),
    (
        "update wide set a = -1 where a = {a}; update wide set a = {a} where a = {b};"
        " update wide set a = {b} where a = -1"
    ),
]
TRUNCATES = ["truncate bag", "truncate parts_0", "truncate plain, by_index", "truncate parts"]


def change_at_random(
    source: Database, dice: random.Random, count: int, *, truncates: bool = True
) -> None:
    """Run transactions; statements that fail are rolled back to a savepoint, as users do."""
    with psycopg.connect(source.dsn()) as connection:
        for _ in range(count):
            for _ in range(dice.randint(1, 8)):
                _change(connection, dice, truncates=truncates)
            if dice.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()


def _change(connection: Connection, dice: random.Random, *, truncates: bool) -> None:
    luck = dice.random()
    if truncates and luck < 0.01:
        statement = dice.choice(TRUNCATES)
    else:
        statement = dice.choice(SWAPS if luck < 0.1 else CHANGES)
    numbers = {"a": dice.randint(1, 20), "b": dice.randint(1, 20), "x": dice.randrange(1000)}
    try:
        with connection.transaction():
            connection.execute(statement.format(**numbers).encode())
    except (errors.UniqueViolation, errors.CheckViolation):
        pass
