"""What a table of the source has that rests on code, and how it is without it. Pure.

The structure that the source reports is with all its code. What the target was not given of it must
not be missed there: each thing for a reason, never by the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgrepl.ddl_capture.policy.code_places import CodeKind
from pgrepl.syntax.parse import quoted_names

__all__ = ["Absent", "find_absent", "find_code", "without"]

_CONSTRAINTS: Mapping[str, CodeKind] = {"c": "check", "x": "exclusion constraint"}


@dataclass(frozen=True, slots=True)
class Absent:
    """Something of a table that rests on code, as the source reports it."""

    kind: CodeKind
    name: str
    definition: str
    #: A statement with the source's names that would make it.
    statement: str

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name


def find_code(table: Mapping[str, Any]) -> Iterator[Absent]:
    """Yield what of a table may rest on code."""
    alter = f"alter table {quoted_names(table['schema'], table['name'])}"
    for column in table["columns"] or ():
        name = quoted_names(column["name"])
        if column["generated"] is not None:
            expression = column["generated"]
            sql = f"{alter} alter {name} set expression as ({expression})"
            yield Absent("generated column", column["name"], expression, sql)
        elif column["default"] is not None:
            expression = column["default"]
            sql = f"{alter} alter {name} set default {expression}"
            yield Absent("default", column["name"], expression, sql)
    for constraint in table["constraints"] or ():
        kind = _CONSTRAINTS.get(constraint["type"])
        if kind is not None:
            name, definition = constraint["name"], constraint["definition"]
            sql = f"{alter} add constraint {quoted_names(name)} {definition}"
            yield Absent(kind, name, definition, sql)
    keys = {constraint["name"] for constraint in table["constraints"] or ()}
    for index in table["unique_indexes"] or ():
        if index["name"] not in keys:
            yield Absent("index", index["name"], index["definition"], index["definition"])


def find_absent(source: Mapping[str, Any], target: Mapping[str, Any]) -> list[Absent]:
    """Return what of the source's table may rest on code and is not on the target."""
    there = {item.key for item in find_code(target)}
    return [item for item in find_code(source) if item.key not in there]


def without(table: Mapping[str, Any], absent: Collection[tuple[str, str]]) -> Mapping[str, Any]:
    """Return a table of the source as it is without some of its code."""
    if not absent:
        return table
    columns = []
    for column in table["columns"] or ():
        made = dict(column)
        if ("generated column", made["name"]) in absent:
            made["generated"] = None
        if ("default", made["name"]) in absent:
            made["default"] = None
        columns.append(made)
    indexes = [
        index for index in table["unique_indexes"] or () if ("index", index["name"]) not in absent
    ]
    is_identity_lost = any(
        index["identity"] for index in table["unique_indexes"] or () if index not in indexes
    )
    return {
        **table,
        "columns": columns,
        "constraints": [
            item
            for item in table["constraints"] or ()
            if (_CONSTRAINTS.get(item["type"]), item["name"]) not in absent
        ],
        "unique_indexes": indexes,
        "identity": "f" if is_identity_lost else table["identity"],
    }
