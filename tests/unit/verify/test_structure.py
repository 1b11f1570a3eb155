"""Differences of tables and sequences, without a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.catalog.sequences import Sequence
from pgrepl.catalog.unique_keys import UniqueKey
from pgrepl.verify.sequences import compare_sequences
from pgrepl.verify.structure import compare_structure, compare_tables
from pgrepl.verify.tables import Column, Table

ID = Column("id", "integer", "pg_catalog", "int4", True, False, True, True)
NOTE = replace(ID, name="note", type="text", type_name="text", is_not_null=False)
BY_ID = UniqueKey(name="by_id", columns=("id",), is_primary=True)
BY_NOTE = UniqueKey(name="by_note", columns=("note",), is_not_null=False)
BOTH = UniqueKey(name="both", columns=("id", "note"), is_not_null=False)
TABLE = Table("app", "t", False, 0, (ID, NOTE), (BY_ID, BY_NOTE))


def differences(target):
    return {(d.what, d.source, d.target) for d in compare_tables("app.t", TABLE, target)}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (TABLE, set()),
        (replace(TABLE, columns=(NOTE, ID)), set()),
        (replace(TABLE, columns=(ID,)), {("column note", "text", None)}),
        (
            replace(TABLE, columns=(ID, NOTE, replace(NOTE, name="more"))),
            {("column more", None, "text")},
        ),
        (
            replace(TABLE, columns=(replace(ID, type="bigint"), NOTE)),
            {("type of column id", "integer", "bigint")},
        ),
        (
            replace(TABLE, columns=(ID, replace(NOTE, is_not_null=True))),
            {("not null of column note", "no", "yes")},
        ),
        (
            replace(TABLE, columns=(ID, replace(NOTE, is_generated=True))),
            {("generated of column note", "no", "yes")},
        ),
        (
            replace(TABLE, unique_keys=(BY_NOTE,)),
            {("primary key", "(id)", None)},
        ),
        (replace(TABLE, unique_keys=(BY_ID,)), {("unique key", "(note)", None)}),
        (replace(TABLE, unique_keys=(*TABLE.unique_keys, BOTH)), set()),
    ],
)
def test_difference_of_a_table_is_named(target, expected):
    assert differences(target) == expected


def test_table_on_one_side_only_is_named():
    key = ("app", "t")
    (missing,) = compare_structure({key: TABLE}, {})
    (extra,) = compare_structure({}, {key: TABLE})
    assert (missing.table, missing.what, missing.target) == ("app.t", "table", None)
    assert (extra.what, extra.source) == ("table", None)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ({}, {}, []),
        ({"last_value": 5}, {"last_value": 5}, []),
        ({"last_value": 5}, {"last_value": 9}, []),
        ({"last_value": None}, {"last_value": None}, []),
        ({"last_value": 5}, {"last_value": 4}, [("value", False)]),
        ({"last_value": 5}, {"last_value": None}, [("value", False)]),
        (
            {"last_value": 5, "increment_by": -1},
            {"last_value": 6, "increment_by": -1},
            [("value", False)],
        ),
        ({"increment_by": 1}, {"increment_by": 2}, [("increment", True)]),
        ({"is_cycle": True}, {}, [("cycle", True)]),
        ({"data_type": "integer"}, {}, [("type", True)]),
    ],
)
def test_sequence_that_is_behind_is_told_and_one_that_is_another_is_a_difference(
    source, target, expected
):
    plain = Sequence("app", "s", "bigint", 1, False, 1)
    key = ("app", "s")
    found = compare_sequences({key: replace(plain, **source)}, {key: replace(plain, **target)})
    assert [(f.what, f.is_difference) for f in found] == expected


def test_sequence_that_the_source_has_not_is_a_difference():
    (found,) = compare_sequences({}, {("app", "s"): Sequence("app", "s", "bigint", 1, False, 1)})
    assert found.is_difference
