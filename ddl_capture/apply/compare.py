"""Hold tables of the target against their structure on the source, and bring those that lack."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.sql import SQL, Identifier

from pgrepl.ddl_capture.apply.create_table import create_table
from pgrepl.ddl_capture.apply.execution import Execution
from pgrepl.ddl_capture.apply.structure import (
    compare_tables,
    find_misnamed,
    mapped_name,
)
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.expectation import find_absent, find_code, without
from pgrepl.ddl_capture.policy.skipped import forget_others
from pgrepl.store.skipped_code import SkippedCode, read_skipped_of, record_skipped

__all__ = ["Comparison", "DifferentError"]

_NAMED = frozenset({"check", "exclusion constraint", "index"})
#: So many differences are shown; the first ones tell.
_SHOWN = 5


class DifferentError(ValueError):
    """Source and target differ after a statement that ran on both."""


class Comparison:
    """The comparison after one command."""

    def __init__(self, target: Workspace, tag: str, execution: Execution) -> None:
        """Take the target in the command's transaction; ``execution`` runs what the rules allow."""
        self._target = target
        self._tag = tag
        self._execution = execution

    def run(self, tables: Iterable[TableDefinition]) -> None:
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
            self._forget(table)
            expected = self._expected(table, found[key])
            if self._rename(key, expected, found[key]):
                found |= self._target.definitions([key])
                expected = self._expected(table, found[key])
            differences = compare_tables(expected, found[key], names, there.__contains__)
            if differences:
                listed = "; ".join(map(str, differences[:_SHOWN]))
                raise DifferentError(f"table {key[0]}.{key[1]} differs after it: {listed}")

    def is_equal(self, tables: Iterable[TableDefinition]) -> bool:
        """Whether replicated tables have the source's structure already."""
        names = self._target.names
        selected = {mapped_name(table, names): table for table in tables}
        there = self._there()
        found = self._target.definitions(selected)
        return all(
            key in found
            and not compare_tables(
                self._expected(table, found[key]), found[key], names, there.__contains__
            )
            for key, table in selected.items()
        )

    def _forget(self, source: TableDefinition) -> None:
        """Forget what was skipped and the source has not any more."""
        forget_others(
            self._target.connection,
            self._target.source_id,
            source.key,
            {item.key for item in find_code(source)},
        )

    def _rename(self, key: TableName, expected: TableDefinition, found: TableDefinition) -> bool:
        """Give constraints the names that the source chose for them; whether there were any."""
        misnamed = find_misnamed(expected, found, self._target.names)
        between = [f"pgrepl_{number}" for number in range(len(misnamed))]
        # One may have the name that another is to get.
        steps = [(old, temporary) for (old, _), temporary in zip(misnamed, between, strict=True)]
        steps += [(temporary, new) for (_, new), temporary in zip(misnamed, between, strict=True)]
        for old, new in steps:
            self._target.connection.execute(
                SQL("alter table {} rename constraint {} to {}").format(
                    Identifier(*key), Identifier(old), Identifier(new)
                )
            )
        return bool(misnamed)

    def _expected(self, source: TableDefinition, target: TableDefinition) -> TableDefinition:
        """Return the source's table without what was skipped of it, and write down what that is."""
        place = (self._target.connection, self._target.source_id)
        key = source.key
        skipped = read_skipped_of(*place, key)
        # PostgreSQL may have given the name of what was skipped to another one on the target.
        absent = {
            item.key for item in find_code(source) if item.kind in _NAMED and item.key in skipped
        }
        for item in find_absent(source, target):
            if item.key in skipped:
                absent.add(item.key)
                continue
            if self._execution.screening.is_trusted:
                continue
            verdict = self._execution.screening.judge(item)
            if verdict.reason is not None:
                absent.add(item.key)
                code = SkippedCode(
                    kind=item.kind,
                    schema_name=key[0],
                    table_name=key[1],
                    name=item.name,
                    definition=item.definition,
                    reason=verdict.reason,
                )
                record_skipped(*place, [code])
                self._target.notes.append(f"skipped {item.kind} {code.shown}: {code.reason}")
        return without(source, absent)

    def _there(self) -> set[TableName]:
        return {(relation.schema, relation.name) for relation in self._target.relations()}

    def _bring(self, key: TableName, table: TableDefinition) -> None:
        """Make a table that became a replicated one without being created: by a rename, say."""
        if table.schema not in self._target.known:
            self._target.make_schema(table.schema)

        def make() -> None:
            for sql in create_table(table, self._target.names):
                self._execution.run_text(sql)

        self._target.watch(make)
        self._target.mark(
            key, f"it came into replication by {self._tag}: what it held before is not here"
        )
