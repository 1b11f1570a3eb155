"""Structures are compared by what they mean, in the target's names."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.ddl_capture.apply.statement.qualify import CaptureMap
from pgrepl.ddl_capture.apply.structure.differences import compare_tables
from pgrepl.ddl_capture.definition import TableDefinition
from tests.support.ddl.definitions import column, table

NAMES = CaptureMap({"app": "t_app"})


def compared(source: TableDefinition, target: TableDefinition, there=frozenset()) -> list[str]:
    differences = compare_tables(source, target, NAMES, there.__contains__)
    return [difference.what for difference in differences]


def facts_in(schema: str) -> dict[str, dict[str, Any]]:
    """Return facts that name a schema."""
    check = f"CHECK ({schema}.f(a) > 1.5)"
    index = f"CREATE UNIQUE INDEX i ON {schema}.a USING btree (a)"
    return {
        "sequence": {"columns": [column("a", default=f"nextval('{schema}.s'::regclass)")]},
        "type": {"columns": [column("a", type=f"{schema}.mood[]")]},
        "collation": {"columns": [column("a", collation=f'{schema}."De"')]},
        "check": {
            "constraints": [{"name": "c", "type": "c", "definition": check, "references": None}]
        },
        "index": {"unique_indexes": [{"name": "i", "definition": index, "identity": False}]},
        "partition": {"parents": [[schema, "p"]], "bound": "FOR VALUES IN (1.5)"},
    }


@pytest.mark.parametrize("what", facts_in(""))
def test_names_of_both_sides_mean_the_same(what):
    ours, theirs = facts_in("app")[what], facts_in("t_app")[what]
    assert compared(table(**ours), table("t_app", **theirs)) == []
    assert compared(table(**ours), table("t_app", **facts_in("t_other")[what])) != []


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"columns": [column("id"), column("b")]}, 'column "b"'),
        ({"columns": [column("id", type="bigint")]}, 'column "id"'),
        ({"columns": [column("id", not_null=True)]}, 'column "id"'),
        ({"columns": [column("id", default="'app.s'::text")]}, 'column "id"'),
        ({"columns": [column("id", identity="a")]}, 'column "id"'),
        ({"identity": "f"}, "replica identity"),
        ({"kind": "p"}, "kind"),
        ({"bound": "DEFAULT"}, "partition bound"),
    ],
)
def test_difference_is_named(facts, what):
    assert what in compared(table(**facts), table("t_app"))
    assert what in compared(table(), table("t_app", **facts))


@pytest.mark.parametrize("is_there", [True, False])
def test_foreign_key_counts_only_where_the_other_table_is(is_there):
    key = {
        "name": "fk",
        "type": "f",
        "definition": "FOREIGN KEY (a) REFERENCES app.b(id)",
        "references": ["app", "b"],
    }
    there = frozenset({("t_app", "b")}) if is_there else frozenset()
    found = compared(table(constraints=[key]), table("t_app"), there)
    assert found == (['constraint "fk"'] if is_there else [])
