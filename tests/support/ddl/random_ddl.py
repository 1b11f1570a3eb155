"""Random DDL and rows, in transactions of a few statements: what fails on the source is its affair.

Statements are made of what the catalogue shows at that moment, most of them sensible, and some that
PostgreSQL refuses: these are rolled back to a savepoint, as in any migration that goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg

from tests.support.database import Database

#: Two of them, so that tables can move.
SCHEMAS = ("wild", "wild two")

_TYPES = (
    *("int", "bigint", "text", "numeric(10,2)", "varchar(40)", "timestamptz", "date", "boolean"),
    *("jsonb", "bytea", "int[]", "interval", "mood", "positive", "pair", "double precision"),
)
_DEFAULTS = (
    *("1", "'x'", "null", "now()", "random()", "'2024-02-03 04:05'", "'{}'", "'low'", "2 + 3"),
    *("clock_timestamp()", "'today'", "row(1, 'p')", "nextval('wild.counter')"),
)
_CHECKS = ("{0} is not null or id > 0", "id <> -{1}", "{0}::text <> 'never'", "id > -1000000")
_USING = ("{0}::text", "null", "length({0}::text)", "{0}::text || id", "'1'", "md5({0}::text)")
_SETTINGS = (
    *("timezone = 'Asia/Kolkata'", "timezone = 'UTC'", "datestyle = 'German'"),
    *("datestyle = 'ISO, DMY'", "intervalstyle = 'iso_8601'", "bytea_output = 'escape'"),
    *("extra_float_digits = -3", 'search_path = "wild two", wild, public', "search_path = wild"),
)

_BEGIN = """
create schema wild; create schema "wild two"; set search_path = wild;
create type mood as enum ('low', 'high');
create domain positive as int default 1 check (value > 0);
create type pair as (a int, b text);
create sequence counter;
create table start (id int primary key, a int, b text);
insert into start select g, g, 'r' || g from generate_series(1, 5) g;
create table parts (id int, k int, b text, primary key (id, k)) partition by list (k);
create table parts_1 partition of parts for values in (1, 2);
create table parts_rest partition of parts default;
insert into parts select g, g % 4, 'p' || g from generate_series(1, 8) g
"""


@dataclass(frozen=True, slots=True)
class _Table:
    schema: str
    name: str
    kind: str
    columns: tuple[str, ...]
    constraints: tuple[str, ...]
    indexes: tuple[str, ...]
    is_partition: bool

    @property
    def shown(self) -> str:
        return f'"{self.schema}"."{self.name}"'


@dataclass
class RandomDdl:
    """A session on the source that does as it likes; the same with the same seed."""

    source: Database
    seed: int
    #: What was done, for whoever looks for what went wrong.
    done: list[str] = field(default_factory=list)
    _random: Random = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def prepare(self) -> None:
        """Make what the copy begins with."""
        with self.source.connect() as connection:
            connection.execute(_BEGIN.encode())

    def run(self, transactions: int) -> None:
        """Run transactions of one to six statements; one in eight is rolled back."""
        with self.source.connect(options="-c search_path=wild,public") as connection:
            for _ in range(transactions):
                if self._random.random() < 0.1:
                    self._try(connection, f"set {self._random.choice(_SETTINGS)}")
                self._transaction(connection)

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        count = self._random.choice((1, 1, 1, 2, 3, 6))
        if count == 1:
            self._try(connection, self._statement(connection))
            return
        self._try(connection, "begin")
        for _ in range(count):
            self._try(connection, "savepoint s")
            is_kept = self._try(connection, self._statement(connection))
            if not is_kept or self._random.random() < 0.1:
                self._try(connection, "rollback to s")
        self._try(connection, "rollback" if self._random.random() < 0.12 else "commit")

    def _try(self, connection: psycopg.Connection[Any], statement: str) -> bool:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as exc:
            self.done.append(f"-- {statement}; -- {exc.sqlstate}")
            return False
        self.done.append(f"{statement};")
        return True

    def _statement(self, connection: psycopg.Connection[Any]) -> str:
        tables = _read_tables(connection)
        if len(tables) < 3 or (len(tables) < 12 and self._random.random() < 0.08):
            return self._create(tables)
        table = self._random.choice(tables)
        makers = _ROWS if self._random.random() < 0.45 else _CHANGES
        return self._random.choice(makers)(self, table, tables)

    # Words.

    def name(self) -> str:
        self._count += 1
        return self._random.choice((f"n{self._count}", f'"N {self._count}"', f"ä{self._count}"))

    def pick(self, items: tuple[str, ...], otherwise: str = "id") -> str:
        return f'"{self._random.choice(items)}"' if items else otherwise

    def type(self) -> str:
        return self._random.choice(_TYPES)

    def choice(self, *items: str) -> str:
        return self._random.choice(items)

    def number(self) -> int:
        return self._random.randint(1, 9)

    def other(self, tables: list[_Table]) -> _Table:
        return self._random.choice(tables)

    # Statements.

    def _create(self, tables: list[_Table]) -> str:
        name = f'"{self._random.choice(SCHEMAS)}".{self.name()}'
        source = self._random.choice(tables).shown if tables else "pg_class"
        key = self.choice(
            "primary key", "primary key", "generated by default as identity", "unique"
        )
        return self.choice(
            f"create table {name} (id int {key}, a {self.type()}, b text default 'b')",
            f"create table {name} (id serial primary key, a {self.type()}"
            " default null, g int generated always as (id * 2) stored)",
            f"create table {name} (like {source} including all)",
            f"create table {name} as select * from {source}",
            f"select * into {name} from {source}",
            f"create table {name} (x int) inherits ({source})",
            f"create table {name} partition of wild.parts for values in ({self.number()})",
            f"do $$ begin execute 'create table {name} (id int primary key, a int)'; end $$",
            f"create table {name} (id int, k int, primary key (id, k)) partition by hash (k)",
        )


def _read_tables(connection: psycopg.Connection[Any]) -> list[_Table]:
    rows = connection.execute(
        "select n.nspname::text, c.relname::text, c.relkind::text,"
        " array(select attname::text from pg_attribute where attrelid = c.oid and attnum > 0"
        "  and not attisdropped order by attnum),"
        " array(select conname::text from pg_constraint where conrelid = c.oid order by 1),"
        " array(select i.relname::text from pg_index x join pg_class i on i.oid = x.indexrelid"
        "  where x.indrelid = c.oid order by 1), c.relispartition"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname in ('wild', 'wild two') and c.relkind in ('r', 'p')"
        ' order by n.nspname collate "C", c.relname collate "C"'
    )
    return [
        _Table(schema, name, kind, tuple(columns), tuple(constraints), tuple(indexes), is_part)
        for schema, name, kind, columns, constraints, indexes, is_part in rows
    ]


_Maker = Callable[[RandomDdl, _Table, list[_Table]], str]


def _insert(r: RandomDdl, t: _Table, _: list[_Table]) -> str:
    first = 10 * r.number() + r.number()
    return r.choice(
        f"insert into {t.shown} (id) select {first} + g from generate_series(0, 3) g",
        f"insert into {t.shown} (id, k) select {first} + g, g % 5 from generate_series(0, 3) g",
        f"insert into {t.shown} (id, a) values ({first}, '{r.number()}')",
        f"insert into {t.shown} default values",
        f"insert into {t.shown} (id, b) values ({first}, repeat('toast{first}', 900))",
    )


def _update(r: RandomDdl, t: _Table, _: list[_Table]) -> str:
    column = r.pick(t.columns)
    return r.choice(
        f"update {t.shown} set {column} = default where id % 3 = 1",
        f"update {t.shown} set id = id + 1000 where id = (select max(id) from {t.shown})",
        f"update {t.shown} set b = b || '!' where id % 2 = 0",
        f"update {t.shown} set k = k + 1",
        f"update {t.shown} set {column} = null where id < 3",
    )


def _delete(r: RandomDdl, t: _Table, _: list[_Table]) -> str:
    return f"delete from {t.shown} where id % 7 = {r.number() % 7}"


def _columns(r: RandomDdl, t: _Table, _: list[_Table]) -> str:
    column, new = r.pick(t.columns), r.name()
    default = r.choice(*_DEFAULTS)
    using = r.choice(*_USING).format(column)
    commands = (
        f"add {new} {r.type()}",
        f"add {new} {r.type()} default {default}",
        f"add {new} {r.type()} not null default {default}",
        f"add {new} bigserial",
        f"add {new} int generated always as identity",
        f"add {new} text generated always as ({column}::text) stored",
        f"drop {column}",
        f"drop {column} cascade",
        f"alter {column} type {r.type()} using {using}",
        f"alter {column} type {r.type()}",
        f"alter {column} set default {default}",
        f"alter {column} drop default",
        f"alter {column} set not null",
        f"alter {column} drop not null",
        f"alter {column} set storage external",
        f"alter {column} drop expression if exists",
        f"alter {column} add generated by default as identity",
        f"alter {column} drop identity if exists",
    )
    if r.number() == 1:
        return f"alter table {t.shown} {r.choice(*commands)}, {r.choice(*commands)}"
    return f"alter table {t.shown} {r.choice(*commands)}"


def _keys(r: RandomDdl, t: _Table, tables: list[_Table]) -> str:
    column, new, other = r.pick(t.columns), r.name(), r.other(tables)
    check = r.choice(*_CHECKS).format(column, r.number())
    constraint = r.pick(t.constraints, "none")
    index = f'"{t.schema}".{r.pick(t.indexes, "none")}'
    return r.choice(
        f"alter table {t.shown} add constraint {new} check ({check})",
        f"alter table {t.shown} add constraint {new} check ({check}) not valid",
        f"alter table {t.shown} validate constraint {constraint}",
        f"alter table {t.shown} add constraint {new} unique (id, {column})",
        f"alter table {t.shown} add foreign key (id) references {other.shown} (id) not valid",
        f"alter table {t.shown} drop constraint {constraint}",
        f"alter table {t.shown} drop constraint {constraint} cascade",
        f"alter table {t.shown} rename constraint {constraint} to {new}",
        f"alter table {t.shown} add primary key (id)",
        f"create index on {t.shown} ({column})",
        f"create unique index on {t.shown} (id) where id > 0",
        f"create unique index {new} on {t.shown} (id, ({column}::text))",
        f"drop index {index}",
        f"alter index {index} rename to {new}",
        f"alter table {t.shown} replica identity {r.choice('full', 'default', 'full')}",
        f"alter table {t.shown} replica identity using index {r.pick(t.indexes, 'none')}",
        f"cluster {t.shown} using {r.pick(t.indexes, 'none')}",
        f"reindex table {t.shown}",
    )


def _names(r: RandomDdl, t: _Table, tables: list[_Table]) -> str:
    column, other, new = r.pick(t.columns), r.pick(t.columns), r.name()
    second = r.other(tables)
    schema = r.choice(*SCHEMAS)
    return r.choice(
        f"alter table {t.shown} rename to {new}",
        f"alter table {t.shown} rename {column} to {new}",
        f"alter table {t.shown} rename {column} to swap_; alter table {t.shown} rename {other} to"
        f" {column}; alter table {t.shown} rename swap_ to {other}",
        f'alter table {t.shown} rename to swap_; alter table {second.shown} rename to "{t.name}";'
        f' alter table "{t.schema}".swap_ rename to "{second.name}"',
        f'alter table {t.shown} set schema "{schema}"',
        f"comment on table {t.shown} is 'it is {new}'",
        f'create view "{schema}".{new} as select * from {t.shown}',
    )


def _whole(r: RandomDdl, t: _Table, tables: list[_Table]) -> str:
    other, number = r.other(tables), r.number()
    return r.choice(
        f"truncate {t.shown}",
        f"truncate {t.shown} cascade",
        f"drop table {t.shown} cascade",
        f"drop table {t.shown}; create table {t.shown} (id int primary key, again text)",
        f"alter table {t.shown} inherit {other.shown}",
        f"alter table {t.shown} no inherit {other.shown}",
        f"alter table wild.parts attach partition {t.shown} for values in ({number})",
        f"alter table wild.parts detach partition {t.shown}",
        f"alter table {t.shown} set unlogged",
        f"alter table {t.shown} set logged",
        f"alter table {t.shown} set (fillfactor = {number * 10})",
        f'create temporary table "{t.name}" (id int) on commit drop',
        f"alter type wild.mood add value if not exists 'v{number}'",
        f"alter type wild.mood rename value 'v{number}' to 'w{number}'",
        f"alter domain wild.positive set default {number}",
        f"alter domain wild.positive drop constraint if exists d{number}",
        f"alter domain wild.positive add constraint d{number} check (value < 100000) not valid",
        f"alter type wild.pair add attribute c{number} int",
        f"alter sequence wild.counter restart {number}",
    )


_ROWS: tuple[_Maker, ...] = (_insert, _insert, _update, _delete)
_CHANGES: tuple[_Maker, ...] = (_columns, _columns, _keys, _names, _whole)
