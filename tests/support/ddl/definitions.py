"""Definitions of tables as the capture reports them, for tests without a server."""

from __future__ import annotations

from typing import Any

from pgrepl.ddl_capture.definition import TableDefinition, decode_definition


def column(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "integer",
        "not_null": False,
        "default": None,
        "generated": None,
        "identity": "",
        "collation": None,
        **facts,
    }


def table(schema: str = "app", **facts: Any) -> TableDefinition:
    """Return table ``a`` with one integer column of the same name, but for the facts given."""
    definition = {
        "schema": schema,
        "name": "a",
        "kind": "r",
        "persistence": "p",
        "identity": "d",
        "extension": False,
        "partition_key": None,
        "bound": None,
        "root": [schema, "a"],
        "parents": None,
        "columns": [column("a")],
        "constraints": None,
        "unique_indexes": None,
    }
    return decode_definition(definition | facts)
