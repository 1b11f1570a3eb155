"""Every value arrives as the source printed it."""

from __future__ import annotations

import json

import pytest
from psycopg.sql import SQL, Identifier, Literal

# Type, value as SQL, and what stands in the spool: JSON, numbers with all their digits.
VALUES = [
    ("int2", "-32768", "-32768"),
    ("int4", "2147483647", "2147483647"),
    ("int8", "9223372036854775807", "9223372036854775807"),
    ("oid", "4294967295", "4294967295"),
    ("float8", "'-0'", "-0"),
    ("float8", "0.1", "0.1"),
    ("float8", "1e-300", "1e-300"),
    ("float4", "1.1", "1.1"),
    ("numeric", "1.10", "1.10"),
    (
        "numeric",
        "123456789012345678901234567890123456789.123456789012345678901234567890",
        "123456789012345678901234567890123456789.123456789012345678901234567890",
    ),
    ("float8[]", "'{NaN,Infinity,-0}'", '"{NaN,Infinity,-0}"'),
    ("bool", "true", "true"),
    ("bool", "null", "null"),
    ("text", "null", "null"),
    ("text", "''", '""'),
    ("text", "'null'", '"null"'),
    ("text", r"E'a\nb\tc\r\"\\ \x01 ü 🐘'", r'"a\nb\tc\r\"\\ \u0001 ü 🐘"'),
    ("char(5)", "'ab'", '"ab   "'),
    ("bytea", r"'\x00ff'", '"00ff"'),
    ("bytea", "''", '""'),
    ("json", """'{"a":  1.10}'""", r'"{\"a\":  1.10}"'),
    ("jsonb", "'null'", '"null"'),
    ("timestamptz", "'2026-01-02 03:04:05.678901+02'", '"2026-01-02 01:04:05.678901+00"'),
    ("timestamp", "'infinity'", '"infinity"'),
    ("timestamp", "'0044-03-15 00:00:00 BC'", '"0044-03-15 00:00:00 BC"'),
    ("date", "'2026-02-03'", '"2026-02-03"'),
    (
        "interval",
        "'1 year 2 mons -3 days +04:05:06.789'",
        '"1 year 2 mons -3 days +04:05:06.789"',
    ),
    ("money", "'1234.5'", '"$1,234.50"'),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
    ("inet", "'10.0.0.1/8'", '"10.0.0.1/8"'),
    ("int4range", "'[1,5)'", '"[1,5)"'),
    ("text[]", """'{a,"b c",null,"\\""}'""", None),
    ("xml", "'<a/>'", '"<a/>"'),
    ("bit(3)", "B'101'", '"101"'),
    ("point", "'(1,2)'", '"(1,2)"'),
    ("tsvector", "'fat cat'", "\"'cat' 'fat'\""),
    ("pg_lsn", "'16/B374D848'", '"16/B374D848"'),
]


def as_text(expected):
    """Return a bare number as wal2json 2.6 prints it, and anything else as it is."""
    is_number = expected[:1] in "-0123456789"
    return f'"{expected}"' if is_number else expected


def test_values_arrive_as_the_source_printed_them(source, stream_from, has_text_numbers):
    columns = SQL(", ").join(
        SQL("{} {}").format(Identifier(f"c{number}"), SQL(kind))
        for number, (kind, _, _) in enumerate(VALUES)
    )
    with source.connect() as connection:
        connection.execute(SQL("create table v (id int primary key, {})").format(columns))
        # What a database or role sets must not leak into the values.
        name = Identifier(source.name)
        for setting, value in (
            ("datestyle", "German"),
            ("intervalstyle", "iso_8601"),
            ("bytea_output", "escape"),
            ("extra_float_digits", "-5"),
            ("timezone", "Asia/Tokyo"),
        ):
            connection.execute(
                SQL("alter database {} set {} = {}").format(name, SQL(setting), Literal(value))
            )
    streaming = stream_from(source)
    listed = ", ".join(value for _, value, _ in VALUES)
    source.execute(f"insert into v values (1, {listed})")
    streaming.receive_once()
    payload = streaming.target.value("select payload from replication.raw_messages")
    line = payload.decode().split("\n")[1]
    for number, (kind, _, expected) in enumerate(VALUES):
        if expected is not None:
            printed = as_text(expected) if has_text_numbers else expected
            assert f'{{"name":"c{number}","value":{printed}}}' in line, kind
    assert json.loads(line)["columns"][-1]["name"] == f"c{len(VALUES) - 1}"


def test_unchanged_toast_stays_absent(source, stream_from):
    source.execute(
        "create table big (id int primary key, n int, body text)",
        "alter table big alter body set storage external",
        "insert into big values (1, 1, repeat('x', 100000))",
    )
    streaming = stream_from(source)
    source.execute("update big set n = 2")
    streaming.receive_once()
    (line,) = streaming.lines()
    assert [column["name"] for column in line["columns"]] == ["id", "n"]


@pytest.mark.parametrize("identity", ["default", "full"])
def test_identity_is_the_old_key(source, stream_from, identity):
    source.execute(
        "create table k (id int primary key, n int)",
        f"alter table k replica identity {identity}",
        "insert into k values (1, 1)",
    )
    streaming = stream_from(source)
    source.execute("update k set id = 2")
    streaming.receive_once()
    (line,) = streaming.lines()
    assert line["columns"][0]["value"] == "2"
    assert line["identity"][0] == {"name": "id", "value": "1"}
