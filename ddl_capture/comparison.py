"""Hold tables of the target against their structure on the source, and bring those that lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pgrepl.ddl_capture.structure import TableName, compare_tables, mapped_name
from pgrepl.ddl_capture.synthesis import create_table
from pgrepl.ddl_capture.workspace import Workspace

__all__ = ["Comparison", "DifferentError"]

#: So many differences are shown; the first ones tell.
_SHOWN = 5


class DifferentError(ValueError):
    """Source and target differ after a statement that ran on both."""


class Comparison:
    """The comparison after one command."""

    def __init__(self, target: Workspace, tag: str, execute: Callable[[str], None]) -> None:
        """Take the target in the command's transaction; ``execute`` runs what the rules allow."""
        self._target = target
        self._tag = tag
        self._execute = execute

    def run(self, tables: Iterable[Mapping[str, Any]]) -> None:
        """Compare replicated tables.

        Raises
        ------
        DifferentError
            naming both sides.

        """
        names = self._target.names
        selected = {mapped_name(table, names): table for table in tables}
        if not selected:
            return
        there = self._there()
        for key, table in selected.items():
            if key not in there:
                self._bring(key, table)
                there.add(key)
        found = self._target.definitions(selected)
        for key, table in selected.items():
            differences = compare_tables(table, found[key], names, there.__contains__)
            if differences:
                listed = "; ".join(map(str, differences[:_SHOWN]))
                raise DifferentError(f"table {key[0]}.{key[1]} differs after it: {listed}")

    def is_equal(self, tables: Iterable[Mapping[str, Any]]) -> bool:
        """Whether replicated tables have the source's structure already."""
        names = self._target.names
        selected = {mapped_name(table, names): table for table in tables}
        there = self._there()
        found = self._target.definitions(selected)
        return all(
            key in found and not compare_tables(table, found[key], names, there.__contains__)
            for key, table in selected.items()
        )

    def _there(self) -> set[TableName]:
        return {(relation.schema, relation.name) for relation in self._target.relations()}

    def _bring(self, key: TableName, table: Mapping[str, Any]) -> None:
        """Make a table that became a replicated one without being created: by a rename, say."""
        if table["schema"] not in self._target.known:
            self._target.make_schema(table["schema"])

        def make() -> None:
            for sql in create_table(table, self._target.names):
                self._execute(sql)

        self._target.watch(make)
        self._target.mark(
            key, f"it came into replication by {self._tag}: what it held before is not here"
        )
