"""Values of every type, as columns and as keys, where a type can be one."""

from __future__ import annotations

from tests.support.workloads.scenarios import Scenario

#: Types with two values each, as SQL; ordered types can be keys.
ORDERED = [
    ("int2", "-32768", "32767"),
    ("int4", "-2147483648", "0"),
    ("int8", "9223372036854775807", "-1"),
    ("oid", "4294967295", "1"),
    ("float4", "1.1", "'-0'"),
    ("float8", "1e-300", "0.1"),
    ("numeric", "123456789012345678901234567890123456789.123456789012345678901234567890", "1.10"),
    ("numeric(12,3)", "1.100", "-0.5"),
    ("bool", "true", "false"),
    ("text", r"E'a\nb\tc\r\"\\ \x01 ü 🐘'", "''"),
    ("varchar(20)", "'null'", r"'\N'"),
    ("char(5)", "'ab'", "'abc'"),
    ('"char"', "'x'", "'y'"),
    ("name", "'n'", "'m'"),
    ("bytea", r"'\x00ff5c'", "''"),
    ("timestamptz", "'2026-01-02 03:04:05.678901+02'", "'-infinity'"),
    ("timestamp", "'infinity'", "'0044-03-15 00:00:00 BC'"),
    ("date", "'2026-02-03'", "'0001-01-01 BC'"),
    ("time", "'23:59:59.999999'", "'24:00'"),
    ("timetz", "'01:02:03+05:30'", "'00:00-12'"),
    ("interval", "'1 year 2 mons -3 days +04:05:06.789'", "'-1 day'"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"),
    ("inet", "'10.0.0.1/8'", "'::1'"),
    ("cidr", "'10.0.0.0/8'", "'::/0'"),
    ("macaddr", "'08:00:2b:01:02:03'", "'00:00:00:00:00:00'"),
    ("money", "'1234.5'", "'-1'"),
    ("bit(3)", "B'101'", "B'000'"),
    ("varbit", "B'1'", "B''"),
    ("jsonb", """'{"a": [1.10, null, "x\\"y"]}'""", "'null'"),
    ("int4range", "'[1,5)'", "'empty'"),
    ("tstzrange", "'[2026-01-01,)'", "'(,)'"),
    ("int4multirange", "'{[1,2),[5,6)}'", "'{}'"),
    ("int4[]", "'{1,2,null}'", "'{}'"),
    ("text[]", """'{a,"b c",null,"\\"","\\\\",""}'""", "'[0:1]={x,y}'"),
    ("float8[]", "'{NaN,Infinity,-0}'", "'{{1,2},{3,4}}'"),
    ("bytea[]", r"""'{"\\x00","\\xff"}'""", "'{}'"),
    ("tsvector", "'fat cat'", "''"),
    ("pg_lsn", "'16/B374D848'", "'0/0'"),
    ("xid8", "'18446744073709551615'", "'1'"),
    ("tid", "'(1,2)'", "'(0,1)'"),
]
OTHERS = [
    ("json", """'{"a":  1.10}'""", "'null'"),
    ("xml", "'<a b=\"c\">d</a>'", "'<x/>'"),
    ("point", "'(1,2.5)'", "'(-0,1e-300)'"),
    ("box", "'(1,1),(0,0)'", "'(2,2),(1,1)'"),
    ("path", "'[(0,0),(1,1)]'", "'((0,0),(1,1))'"),
    ("polygon", "'((0,0),(1,1),(1,0))'", "'((0,0),(2,2),(1,0))'"),
    ("circle", "'<(0,0),1>'", "'<(1,1),2>'"),
    ("tsquery", "'fat & !cat'", "'a'"),
    ("jsonpath", "'$.a[*]'", "'$'"),
    ("txid_snapshot", "'10:20:10,14'", "'1:1:'"),
    ("json[]", """array['{"a": 1}']::json[]""", "'{}'"),
]
TYPES = [*ORDERED, *OTHERS]

_COLUMNS = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(TYPES))
_FIRST = ", ".join(first for _, first, _ in TYPES)
_SECOND = ", ".join(f"c{n} = {second}" for n, (_, _, second) in enumerate(TYPES))
_THIRD = ", ".join(f"c{n} = null" for n, _ in enumerate(TYPES) if n % 2)


def _each(statement: str) -> str:
    return ";".join(
        statement.format(table=f"k{n}", kind=kind, first=first, second=second)
        for n, (kind, first, second) in enumerate(ORDERED)
    )


TYPE_SCENARIOS = {
    "types": Scenario(
        f"create table t (id int primary key, {_COLUMNS}); insert into t values (1, {_FIRST});"
        "insert into t values (2);"
        "create table bag as select * from t; alter table bag replica identity full",
        [
            f"insert into t values (3, {_FIRST}); update t set {_SECOND} where id = 1",
            f"update t set {_SECOND} where id = 2; update t set id = 20, {_THIRD} where id = 2",
            f"update bag set {_SECOND} where id = 2; delete from bag where id = 1",
            f"insert into bag values (3, {_FIRST}); update bag set id = 30, {_THIRD} where id = 3",
        ],
    ),
    "types_as_keys": Scenario(
        _each(
            "create table {table} (k {kind} primary key, n int);"
            "insert into {table} values ({first}, 1)"
        ),
        [
            _each("update {table} set n = 2"),
            _each("update {table} set k = {second}"),
            _each("insert into {table} values ({first}, 3)"),
            _each("update {table} set n = n + 1; delete from {table} where n = 3"),
        ],
    ),
}
