"""Definitions are read with every field of their query, or refused by the field's name."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from pgrepl.ddl_capture.decode.event import decode_event
from pgrepl.ddl_capture.definition import (
    Column,
    Constraint,
    DefinitionError,
    Index,
    TableDefinition,
    decode_definition,
)
from pgrepl.errors import SpoolError
from pgrepl.postgres.queries import load_query

REPORTED: dict[str, Any] = {
    "oid": 16385,
    "schema": "app",
    "name": "p1",
    "kind": "r",
    "persistence": "p",
    "identity": "i",
    "extension": False,
    "partition_key": None,
    "bound": "FOR VALUES IN (1)",
    "root": ["app", "p"],
    "parents": [["app", "p"]],
    "columns": [
        {
            "name": "id",
            "type": "integer",
            "not_null": True,
            "not_null_name": "id_there",
            "type_default": "8",
            "default": "7",
            "generated": None,
            "identity": "",
            "collation": None,
        }
    ],
    "constraints": [
        {
            "name": "fk",
            "type": "f",
            "definition": "FOREIGN KEY (id) REFERENCES app.b(id)",
            "references": ["app", "b"],
        }
    ],
    "unique_indexes": [
        {
            "name": "i",
            "definition": "CREATE UNIQUE INDEX i ON app.p1 USING btree (id)",
            "identity": True,
        }
    ],
}
DECODED = TableDefinition(
    schema="app",
    name="p1",
    kind="r",
    persistence="p",
    replica_identity="i",
    is_extension_member=False,
    partition_key=None,
    bound="FOR VALUES IN (1)",
    root=("app", "p"),
    parents=(("app", "p"),),
    columns=(Column("id", "integer", True, "7", None, "", None, "id_there", "8"),),
    constraints=(Constraint("fk", "f", "FOREIGN KEY (id) REFERENCES app.b(id)", ("app", "b")),),
    unique_indexes=(Index("i", "CREATE UNIQUE INDEX i ON app.p1 USING btree (id)", True),),
    oid=16385,
)
LISTS = ("columns", "constraints", "unique_indexes")
FIELDS = [
    *((field, None) for field in REPORTED),
    *((field, part) for part in LISTS for field in REPORTED[part][0]),
]
#: What rows of an older capture do not have.
LATER = [("not_null_name", "columns"), ("type_default", "columns"), ("oid", None)]


def reported() -> dict[str, Any]:
    return copy.deepcopy(REPORTED)


def test_every_field_is_read():
    assert decode_definition(REPORTED) == DECODED
    assert DECODED.key == ("app", "p1")
    assert DECODED.find_column("id") == DECODED.columns[0]
    assert DECODED.find_column("other") is None


def test_fields_are_those_of_the_query():
    query = load_query("pgrepl.ddl_capture", "table_definition")
    assert set(re.findall(r"'([a-z_]{2,})', ", query)) == {field for field, _ in FIELDS}


def test_nothing_in_a_list_is_null():
    found = decode_definition(reported() | dict.fromkeys(("parents", *LISTS)))
    assert (found.parents, found.columns, found.constraints, found.unique_indexes) == ((),) * 4


def test_field_of_a_later_layout_is_passed_over():
    value = reported()
    value["compression"] = "lz4"
    value["columns"][0]["storage"] = "x"
    assert decode_definition(value) == DECODED


@pytest.mark.parametrize(("field", "part"), [field for field in FIELDS if field not in LATER])
def test_field_that_is_not_there_is_named(field, part):
    value = reported()
    del (value if part is None else value[part][0])[field]
    with pytest.raises(DefinitionError, match=f'has no "{field}"'):
        decode_definition(value)


def test_what_an_older_capture_does_not_report_is_none():
    value = reported()
    del value["columns"][0]["not_null_name"]
    del value["columns"][0]["type_default"]
    del value["oid"]
    found = decode_definition(value)
    column = found.columns[0]
    assert (column.not_null_name, column.type_default, found.oid) == (None, None, None)


@pytest.mark.parametrize(("field", "part"), FIELDS)
def test_field_of_another_type_is_named(field, part):
    value = reported()
    (value if part is None else value[part][0])[field] = 7.5
    with pytest.raises(DefinitionError, match=f'"{field}" in the definition of'):
        decode_definition(value)


def test_row_with_another_layout_tells_what_to_do():
    value = reported()
    del value["root"]
    row = {
        "id": "7",
        "kind": "end",
        "tag": "ALTER TABLE",
        "xid": "700",
        "invoker": "alice",
        "tables": json.dumps([value]),
    }
    with pytest.raises(SpoolError, match='has no "root"') as caught:
        decode_event(row)
    assert "pgrepl ddl install" in (caught.value.hint or "")
