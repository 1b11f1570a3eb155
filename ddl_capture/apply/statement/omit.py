"""A captured statement without the columns that rules omit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.config.rules import Rules
from pgrepl.ddl_capture.decode.event import DroppedObject
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.syntax.omitted import ColumnNeededError, Lacking, remove_columns
from pgrepl.syntax.parse import Tree, quoted_names

__all__ = ["Omission", "omit_columns"]


@dataclass(frozen=True, slots=True)
class Omission:
    """What became of a statement."""

    #: Whether anything is left to run.
    is_left: bool = True
    #: What was taken out of it, for people.
    note: str | None = None
    #: Columns that rules omit by the name that the statement gives them.
    dropped: Sequence[DroppedObject] = ()


def omit_columns(
    tree: Tree, rules: Rules, path: Sequence[str], tables: Sequence[TableDefinition]
) -> Omission:
    """Take out what a statement says of columns that rules omit.

    ``path`` is where it looked for tables that it names without a schema, ``tables`` are those that
    it is about.

    Raises
    ------
    RefusedError
        when it does not work without them.

    """
    if not rules.changes_structure:
        return Omission()

    def columns(schema: str, table: str) -> frozenset[str]:
        places = [schema] if schema else path
        return frozenset[str]().union(*(rules.omitted(place, table) for place in places))

    def rows(schema: str, table: str) -> bool:
        return any(rules.is_filtered(place, table) for place in ([schema] if schema else path))

    try:
        removed = remove_columns(tree, Lacking(columns, rows))
    except ColumnNeededError as exc:
        raise RefusedError(str(exc)) from exc
    if removed.is_left and not removed.parts:
        return Omission()
    parts = ", ".join(dict.fromkeys(map(str, removed.parts))) or "its columns"
    dropped = [
        DroppedObject(
            type="table column",
            schema=table.schema,
            names=(*table.key, removed.renamed),
            identity=quoted_names(*table.key, removed.renamed),
            is_original=True,
        )
        for table in tables
        if removed.renamed is not None
    ]
    return Omission(removed.is_left, f"rules omit {parts}", dropped)
