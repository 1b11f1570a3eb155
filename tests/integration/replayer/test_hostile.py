"""Names and values that mean something to one of those who read them on their way."""

from __future__ import annotations

import pytest
from psycopg import sql

from pgrepl.replayer import ReplaySettings
from tests.support.running.pipeline import Pipeline

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05)

#: Each of them is the name of a column too.
TEXTS = [
    "'",
    '"',
    '""',
    "\n",
    "\r\n",
    "\t",
    "\\",
    "\\\\",
    "\\N",
    "\\.",
    "\\n",
    "\\x41",
    "\\u0000",
    "%",
    "%s",
    "%(id)s",
    "{}",
    "{0}",
    "$1",
    "$$",
    "; drop table t; --",
    "/*",
    "null",
    "NULL",
    "x,y",
    "(a)",
    "{a,b}",
    '"}]}',
    '{"action":"B"}',
    "__debezium_unavailable_value",
    "\x01\x1b[31m\x7f",
    "é" * 31 + "x",
    "x" * 63,
    "\U0001d4b3\u202e\u2028\ufeff\u0301",
    "CamelCase",
    " ",
]
TABLES = ['t"%s\n\\', "é" * 31 + "y", "; drop schema public; --", "a.b/c", '{"table":"t"}']
KEY = "k'\"%\\\n"


def named(statement, *values, **names):
    """Return a statement with names and values in it; lists become lists."""
    # Not as parameters: a name may have what stands for one.
    return sql.SQL(statement).format(
        *map(sql.Literal, values),
        **{
            key: sql.SQL(", ").join(map(sql.Identifier, own))
            if isinstance(own, list)
            else sql.Identifier(own)
            for key, own in names.items()
        },
    )


def make_tables(connection):
    definitions = sql.SQL(", ").join(named("{c} text", c=text) for text in TEXTS)
    for number, table in enumerate(TABLES):
        # The last one has no key: all of a row says which it is.
        key = "{k} text" if number == len(TABLES) - 1 else "{k} text primary key"
        connection.execute(
            named("create table {t} (", t=table)
            + named(key, k=KEY)
            + sql.SQL(", ")
            + definitions
            + sql.SQL(", j json)")
        )
    connection.execute(named("alter table {t} replica identity full", t=TABLES[-1]))


def change_rows(connection, *, first):
    """Insert rows that have every text in every column, change and delete some."""
    marks = ", ".join(["{}"] * (len(TEXTS) + 2))
    for table in TABLES:
        for number in range(len(TEXTS)):
            values = TEXTS[number:] + TEXTS[:number]
            row = f"{first}{TEXTS[number]}", *values, '{"a":"\\u0000\\n%s"}'
            connection.execute(named("insert into {t} values (" + marks + ")", *row, t=table))
        for number, text in enumerate(TEXTS):
            found = f"{first}{text}"
            if number % 3 == 0:
                change = TEXTS[number - 1] * 2, found
                statement = "update {t} set {c} = {} where {k} = {}"
                connection.execute(named(statement, *change, t=table, c=text, k=KEY))
            elif number % 3 == 1:
                change = f"moved {found}", found
                statement = "update {t} set {k} = {} where {k} = {}"
                connection.execute(named(statement, *change, t=table, k=KEY))
            elif number % 2 == 0:
                connection.execute(named("delete from {t} where {k} = {}", found, t=table, k=KEY))


def rows(database, schema, table):
    # An array of texts: json has no order.
    columns = named("{k}, {c}, j::text", k=KEY, c=TEXTS)
    query = sql.SQL("select {} from {}").format(columns, sql.Identifier(schema, table))
    with database.connect() as connection:
        return sorted(connection.execute(query).fetchall())


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_hostile_names_and_values_are_copied_and_followed_exactly(source, target, plugin):
    schema = 'S"%s\\'
    with source.connect() as connection:
        connection.execute(named("create schema {s}", s=schema))
        connection.execute(named("set search_path = {s}", s=schema))
        make_tables(connection)
        change_rows(connection, first="copied ")
        connection.commit()
        pipeline = Pipeline(source, target, plugin=plugin)
        pipeline.copy()
        change_rows(connection, first="followed ")
        connection.execute(named("truncate {t}", t=TABLES[2]))
        connection.commit()
    pipeline.apply(QUICK)
    for table in TABLES:
        there = rows(source, schema, table)
        assert rows(target, pipeline.schema(schema), table) == there
        assert bool(there) == (table != TABLES[2])


@pytest.fixture
def make_source(source_cluster, make_database):
    def make(encoding):
        database = make_database(source_cluster, prefix=encoding.lower())
        database.make_anew(encoding)
        return database

    return make


# Over wal2json: tests/spark/replay/test_replay_encodings.py.
def test_texts_of_latin1_arrive_over_pgoutput(make_source, target):
    source = make_source("LATIN1")
    every = "".join(map(chr, [*range(1, 128), *range(160, 256)]))
    with source.connect(client_encoding="UTF8") as connection:
        connection.execute(
            named("create table {t} ({k} text primary key, v text)", t="é\\", k="ÿ%")
        )
        connection.commit()
        pipeline = Pipeline(source, target, plugin="pgoutput")
        pipeline.copy()
        for text in (*TEXTS[:20], "é", every):
            connection.execute(named("insert into {t} values ({}, {})", text, every, t="é\\"))
        connection.execute(
            named("update {t} set {k} = {} where {k} = {}", "ÿ", "é", t="é\\", k="ÿ%")
        )
        connection.commit()
        query = sql.SQL("select * from {}")
        there = connection.execute(query.format(sql.Identifier("é\\"))).fetchall()
    pipeline.apply(QUICK)
    with target.connect() as connection:
        here = query.format(sql.Identifier(pipeline.schema(), "é\\"))
        assert sorted(connection.execute(here).fetchall()) == sorted(there)


def test_bytes_of_sql_ascii_that_are_no_text_park_their_table_alone_over_pgoutput(
    make_source, target
):
    source = make_source("SQL_ASCII")
    source.execute(
        "create table bad (id int primary key, v text)",
        "create table good (id int primary key, v text)",
    )
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.copy()
    source.execute(
        "begin; insert into bad values (1, E'\\xe9'); insert into good values (1, 'ü%\\'); commit",
        "update good set id = 2",
    )
    pipeline.receive()
    assert pipeline.replay(QUICK).error is None
    ((table, reason),) = pipeline.parked()
    assert (table, "encoding" in reason) == ("bad", True)
    assert target.rows(f"select * from {pipeline.schema()}.good") == [(2, "ü%\\")]
    assert target.rows(f"select * from {pipeline.schema()}.bad") == []
