"""What can happen to rows and their keys on a source, each in a schema of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A text that is stored out of line; ``{}`` makes it differ from others.
BIG = "(select string_agg(md5(g::text || '{}'), '') from generate_series(1, 100) g)"

TOAST = """create table t (id int primary key, n int, body text, other text);
alter table t alter body set storage external, alter other set storage external;
insert into t select g, g, {body}, {other} from generate_series(1, 6) g
""".format(body=BIG.format("a"), other=BIG.format("b"))


@dataclass(frozen=True)
class Scenario:
    """SQL that runs with its schema as search path."""

    setup: str
    #: Each text is one transaction.
    changes: Sequence[str]
    #: What was done to the target's copy before replay.
    target: str = ""
    #: Queries whose results must be the same on both sides, where rows alone are not enough.
    columns: str = "*"


SCENARIOS = {
    "plain": Scenario(
        "create table t (id int primary key, note text, n numeric);"
        "insert into t select g, 'note ' || g, g from generate_series(1, 20) g",
        [
            "insert into t values (21, 'new', 1.10), (22, null, null), (23, '', 0)",
            "update t set note = note || '!' where id < 5; update t set n = n + 1 where id < 3",
            "delete from t where id in (7, 21)",
            "insert into t values (7, 'again', 7); delete from t where id = 8",
            "update t set n = null where id = 7",
        ],
    ),
    "insert_only": Scenario(
        "create table t (id int primary key, note text)",
        ["insert into t select g, 'x' from generate_series(1, 500) g"],
    ),
    "awkward_texts": Scenario(
        "create table t (id int primary key, note text, b bytea)",
        [
            r"""insert into t values (1, E'tab\t nl\n cr\r bs\\ q\" \x01\x0b\x1f\x7f é 🐘 \\N', ''),
                (2, '\N', '\x5c4e'), (3, '\.', '\x00ff'), (4, E'\\u0041 \u00e9', null),
                (5, '{"name":"id","value":99}', '\x'), (6, 'null', null)""",
            r"update t set note = note || E'\x02' where id in (1, 2, 4)",
            r"""update t set note = ',"identity":[{"name":"id","value":1}]}' where id = 5""",
            r"""update t set note = E'\n{"action":"B","xid":1' where id = 6""",
        ],
    ),
    "key_moves": Scenario(
        "create table t (id int primary key, note text);"
        "insert into t select g, 'note ' || g from generate_series(1, 30) g",
        [
            "update t set id = id + 100 where id <= 5",
            "update t set id = 3 where id = 102; update t set id = 2 where id = 103",
            (
                "update t set id = -1 where id = 10; update t set id = 10 where id = 11;"
                " update t set id = 11 where id = -1"
            ),
            (
                "update t set id = 200 where id = 20; update t set id = 201 where id = 200;"
                " update t set id = 202, note = 'moved' where id = 201"
            ),
            "update t set id = 300 where id = 21; update t set id = 21 where id = 300",
            "update t set id = 21 * 1000 where id = 21; delete from t where id = 21000",
            (
                "update t set id = 400 where id = 22; insert into t values (22, 'new'),"
                " (401, 'newer'); update t set id = 402 where id = 401"
            ),
            (
                "delete from t where id = 23; update t set id = 23 where id = 24;"
                " delete from t where id = 23; insert into t values (23, 'third')"
            ),
            # The whole table moves up by one, from above.
            (
                "do $$ declare i int; begin for i in select id from t order by id desc loop"
                " update t set id = i + 1 where id = i; end loop; end $$"
            ),
        ],
    ),
    "composite_key": Scenario(
        "create table t (note text, b text, x int, a int, primary key (a, b));"
        "insert into t select 'n', 'k' || g, 0, g from generate_series(1, 9) g",
        [
            "update t set b = 'other' where a = 1; update t set a = a + 50 where a = 2",
            "update t set a = 3, b = 'k4' where a = 4; update t set x = 1 where a = 3",
            "delete from t where a = 5 and b = 'k5'; insert into t values ('m', 'k5', 5, 5)",
        ],
    ),
    "all_key": Scenario(
        "create table t (a int, b int, primary key (a, b)); insert into t values (1, 1), (2, 2)",
        ["update t set a = a", "update t set b = 3 where a = 1", "insert into t values (5, 5)"],
    ),
    "unique_values_move": Scenario(
        "create table t (id int primary key, u int unique, note text);"
        "insert into t select g, g, 'n' from generate_series(1, 20) g",
        [
            (
                "update t set u = -1 where id = 1; update t set u = 1 where id = 2;"
                " update t set u = 2 where id = 1"
            ),
            "delete from t where id = 3; insert into t values (103, 3, 'took it')",
            "update t set u = null where id = 4; insert into t values (104, 4, 'took it')",
            (
                "update t set u = 1000 + u where id between 5 and 9;"
                " update t set u = u - 1001 where id between 6 and 9"
            ),
        ],
    ),
    "unique_values_move_with_toast": Scenario(
        TOAST + "; alter table t add unique (n)",
        [
            (
                "update t set n = -1 where id = 1; update t set n = 1 where id = 2;"
                " update t set n = 2 where id = 1"
            ),
        ],
    ),
    "exclusion": Scenario(
        "create table t (id int primary key, during int4range,"
        " exclude using gist (during with &&)); insert into t values (1, '[1,5)'), (2, '[5,9)')",
        [
            (
                "update t set during = '[100,101)' where id = 1; update t set during = '[1,5)'"
                " where id = 2; update t set during = '[5,9)' where id = 1"
            ),
        ],
    ),
    "toast": Scenario(
        TOAST,
        [
            "update t set n = n + 1 where id = 1",
            f"insert into t values (10, 1, {BIG.format('c')}, {BIG.format('d')})",
            "update t set n = 2 where id = 10",
            f"update t set body = {BIG.format('e')} where id = 2",
            "update t set n = 7 where id = 2",
            "update t set id = 103 where id = 3",
            (
                "update t set id = 104 where id = 4; update t set n = 44 where id = 104;"
                f" update t set other = {BIG.format('f')} where id = 104"
            ),
            (
                "update t set id = -5 where id = 5; update t set id = 5 where id = 6;"
                " update t set id = 6 where id = -5"
            ),
            "delete from t where id = 1",
            f"insert into t values (1, 1, null, {BIG.format('g')})",
            "update t set n = 2 where id = 1; update t set id = 11 where id = 1",
        ],
    ),
    "toast_alone_is_updated": Scenario(
        "create table t (id int generated always as identity primary key, body text);"
        "alter table t alter body set storage external;"
        f"insert into t (body) select {BIG.format('a')} from generate_series(1, 3)",
        ["update t set body = body", f"update t set body = {BIG.format('b')} where id = 2"],
    ),
    "toast_as_key": Scenario(
        "create table t (k text primary key, n int); alter table t alter k set storage external;"
        f"insert into t select substr({BIG.format('k')}, g, 2300), g from generate_series(1, 5) g",
        [
            "update t set n = n + 1 where n < 4",
            "update t set k = 'short' where n = 5",
            "update t set k = k || 'x' where n = 2",
            "delete from t where n = 3",
        ],
    ),
    "toast_under_identity_full": Scenario(
        TOAST + "; alter table t replica identity full",
        [
            "update t set n = n + 1",
            "update t set id = id + 10 where id < 3",
            "delete from t where id = 4",
            f"update t set body = {BIG.format('z')} where id = 5; update t set n = 0 where id = 5",
        ],
    ),
    "no_key": Scenario(
        "create table t (a int, b text); alter table t replica identity full;"
        "insert into t select g % 3, 'b' from generate_series(1, 30) g;"
        "insert into t values (null, null), (null, null), (null, '')",
        [
            "delete from t where ctid in (select ctid from t where a = 1 limit 4)",
            "update t set b = null where ctid in (select ctid from t where a = 2 limit 3)",
            "insert into t values (1, 'b'), (null, null); delete from t where a is null and b = ''",
            "update t set a = 9 where a is null",
            "delete from t where a = 9",
            (
                "insert into t values (7, 'x'); update t set a = 8 where a = 7; delete from t"
                " where a = 8"
            ),
        ],
    ),
    "no_key_with_toast": Scenario(
        TOAST.replace(" primary key", "") + "; alter table t replica identity full;"
        "insert into t select * from t",
        [
            "update t set n = 5 where id = 1",
            "delete from t where ctid in (select ctid from t where id = 2 limit 1)",
            f"update t set body = {BIG.format('q')} where id = 3",
        ],
    ),
    "no_key_texts_of_types": Scenario(
        "create table t (n numeric, f float8, j json, c char(5), g int"
        " generated always as (1) stored); alter table t replica identity full;"
        """insert into t values (1.0, '-0', '{"a": 1}', 'x'), (1.00, 0, '{"a":1}', 'x '),"""
        """ (1.0, 0, null, 'y')""",
        [
            "delete from t where n::text = '1.00'",
            "update t set n = 2.50 where f::text = '-0'",
            "update t set c = 'z' where c = 'y'",
        ],
    ),
    "no_key_insert_only": Scenario(
        "create table t (a int, b text); insert into t values (1, 'x')",
        ["insert into t values (1, 'x'), (1, 'x')", "insert into t values (null, null)"],
    ),
    "identity_by_index": Scenario(
        "create table t (id int primary key, a int not null, b text not null, n int);"
        "create unique index t_ab on t (b, a); alter table t replica identity using index t_ab;"
        "insert into t select g, g, 'b' || g, g from generate_series(1, 9) g",
        [
            "update t set n = 0 where id < 4",
            "update t set id = id + 100 where id = 2; update t set a = 30 where id = 3",
            (
                "update t set id = -1 where id = 4; update t set id = 4 where id = 5;"
                " update t set id = 5 where id = -1"
            ),
            "delete from t where id = 6",
        ],
    ),
    "identity_full_with_key": Scenario(
        "create table t (id int primary key, n int, note text);"
        "alter table t replica identity full;"
        "insert into t select g, g, null from generate_series(1, 9) g",
        [
            "update t set note = 'x' where id < 4",
            "update t set id = id + 100 where id < 3; delete from t where id = 101",
            "delete from t where id = 9; insert into t values (9, 9, 'again')",
        ],
    ),
    "deferrable_key": Scenario(
        "create table t (id int primary key deferrable initially deferred, n int);"
        "alter table t replica identity full;"
        "insert into t select g, g from generate_series(1, 9) g",
        [
            "update t set id = id + 1",
            "update t set id = 10 - id where id < 10; delete from t where n = 5",
        ],
    ),
    "identity_changes_to_full": Scenario(
        "create table t (id int primary key, n int); insert into t values (1, 1), (2, 2), (3, 3)",
        [
            "update t set n = 10 where id = 1",
            "alter table t replica identity full",
            "update t set n = 11 where id = 1; update t set id = 20 where id = 2",
            "alter table t replica identity default",
            "update t set n = 12 where id = 1; delete from t where id = 3",
        ],
    ),
}
