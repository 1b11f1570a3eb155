"""Hold tables of the target against their structure on the source, and reach what differs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from pgrepl.ddl_capture.apply.execution import Execution
from pgrepl.ddl_capture.apply.scope import CREATING
from pgrepl.ddl_capture.apply.structure.create_table import create_table
from pgrepl.ddl_capture.apply.structure.differences import Difference, compare_tables, mapped_name
from pgrepl.ddl_capture.apply.structure.reaching import StepRunner
from pgrepl.ddl_capture.apply.structure.reconcile import DroppedPart, plan_steps
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import DroppedObject
from pgrepl.ddl_capture.definition import Column, TableDefinition, TableName
from pgrepl.ddl_capture.policy.expectation import find_absent, find_code, without
from pgrepl.ddl_capture.policy.skipped import forget_others
from pgrepl.store.skipped_code import SkippedCode, read_skipped_of, record_skipped

__all__ = ["Comparison", "DifferentError"]

_NAMED = frozenset({"check", "exclusion constraint", "foreign key", "index", "unique constraint"})
#: The number of differences that are shown; the first ones tell.
_SHOWN = 5
#: A statement about a table may change its partitions, so that another one follows from it.
_ROUNDS = 3


class DifferentError(ValueError):
    """Source and target differ after a statement, and that cannot be helped."""


class Comparison:
    """The comparison after one command."""

    def __init__(
        self,
        target: Workspace,
        tag: str,
        execution: Execution,
        dropped: Sequence[DroppedObject] = (),
    ) -> None:
        """Take the target in the command's transaction; ``execution`` runs what the rules allow."""
        self._target = target
        self._tag = tag
        self._execution = execution
        self._dropped = dropped
        #: What was skipped of tables, as long as nothing runs.
        self._skipped: dict[TableName, frozenset[tuple[str, str]]] = {}

    def run(self, tables: Iterable[TableDefinition]) -> None:
        """Compare replicated tables, and bring those that differ to the source's structure.

        Raises
        ------
        DifferentError
            naming both sides of what cannot be reached.

        """
        names = self._target.names
        # What is done to a parent is done to its children.
        ordered = sorted(tables, key=lambda table: (table.bound is not None, bool(table.parents)))
        selected = {mapped_name(table, names): table for table in ordered}
        if not selected:
            return
        there = self._there()
        brought = [key for key in selected if key not in there]
        for key in brought:
            self._bring(selected[key])
            there.add(key)
        for key, table in selected.items():
            self._forget(table)
            self._reach(key, table, there.__contains__)
        for key in brought if self._tag not in CREATING else ():
            self._target.mark(
                key, f"it came into replication by {self._tag}: what it held before is not here"
            )

    def is_equal(self, tables: Iterable[TableDefinition]) -> bool:
        """Whether replicated tables have the source's structure already, and what it dropped not.

        A copy is made with the columns that are there: one more of them is no obstacle.
        """
        names = self._target.names
        selected = {mapped_name(table, names): table for table in tables}
        there = self._there().__contains__
        found = self._target.definitions(selected)
        for key, table in selected.items():
            dropped = _parts_of(table, self._dropped)
            if key not in found or self._differences(table, found[key], there, dropped)[1]:
                return False
        return True

    def _reach(
        self, key: TableName, table: TableDefinition, is_there: Callable[[TableName], bool]
    ) -> None:
        dropped = _parts_of(table, self._dropped)
        for _ in range(_ROUNDS):
            found = self._target.definitions([key])[key]
            expected, differences = self._differences(table, found, is_there, dropped)
            if not differences:
                return
            steps = plan_steps(expected, found, self._target.names, is_there, dropped)
            if not steps:
                break
            runner = StepRunner(self._target, self._execution, key, table, self._tag)
            self._skipped.clear()
            self._target.watch(partial(runner.run, steps))
            self._target.notes.append(f"reached by structure: {_listed(differences)}")
        else:
            found = self._target.definitions([key])[key]
            _, differences = self._differences(table, found, is_there, dropped)
        if differences:
            raise DifferentError(
                f"table {key[0]}.{key[1]} differs after it: {_listed(differences)}"
            )

    def _differences(
        self,
        source: TableDefinition,
        found: TableDefinition,
        is_there: Callable[[TableName], bool],
        dropped: Collection[DroppedPart] = (),
    ) -> tuple[TableDefinition, list[Difference]]:
        """Return the table as it is expected, and what is wrong with the one that was found."""
        expected = self._expected(source, found)
        differences = compare_tables(expected, found, self._target.names, is_there)
        gone = {f'column "{name}"' for kind, name in dropped if kind == "column"}
        gone |= {f'constraint "{name}"' for kind, name in dropped if kind == "constraint"}
        gone |= {f'unique index "{name}"' for _, name in dropped}
        harmful = {f'column "{column.name}"' for column in found.columns if _must_be_given(column)}
        return expected, [
            item
            for item in differences
            if not item.is_extra
            or item.what in gone
            or item.what in harmful
            or not item.what.startswith(("column ", "constraint ", "unique index "))
        ]

    def _forget(self, source: TableDefinition) -> None:
        """Forget what was skipped and the source has not any more."""
        self._skipped[source.key] = forget_others(
            self._target.connection,
            self._target.source_id,
            source.key,
            {item.key for item in find_code(source)},
        )

    def _expected(self, source: TableDefinition, target: TableDefinition) -> TableDefinition:
        """Return the source's table without what was skipped of it, and write down what that is."""
        place = (self._target.connection, self._target.source_id)
        key = source.key
        if key not in self._skipped:
            self._skipped[key] = read_skipped_of(*place, key)
        skipped = self._skipped[key]
        # PostgreSQL may have given the name of what was skipped to another one on the target.
        absent = {
            item.key for item in find_code(source) if item.kind in _NAMED and item.key in skipped
        }
        for item in find_absent(source, target):
            if item.key in skipped:
                absent.add(item.key)
                continue
            if self._execution.screening.is_trusted and item.kind != "generated column":
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
                self._skipped[key] |= {item.key}
                self._target.notes.append(f"skipped {item.kind} {code.shown}: {code.reason}")
        return without(source, absent)

    def _there(self) -> set[TableName]:
        return {(relation.schema, relation.name) for relation in self._target.relations()}

    def _bring(self, table: TableDefinition) -> None:
        """Make a table that the target has not: it became a replicated one, or its text failed."""
        if table.schema not in self._target.known:
            self._target.make_schema(table.schema)
        sql = create_table(table, self._target.names)
        self._target.watch(partial(self._execution.run_text, sql))


def _must_be_given(column: Column) -> bool:
    """Whether a row that says nothing of a column is refused."""
    return (
        column.is_not_null
        and column.default is None
        and column.generated is None
        and not column.identity
    )


def _listed(differences: Sequence[Difference]) -> str:
    return "; ".join(map(str, differences[:_SHOWN]))


def _parts_of(table: TableDefinition, dropped: Iterable[DroppedObject]) -> frozenset[DroppedPart]:
    """Return what of a table was dropped with the command."""
    parts: set[DroppedPart] = set()
    for item in dropped:
        names = tuple(item.names)
        if item.type == "table column" and names[:2] == table.key:
            parts.add(("column", names[2]))
        elif item.type == "table constraint" and names[:2] == table.key:
            parts.add(("constraint", names[2]))
        elif item.type == "index" and names[0] == table.schema:
            parts.add(("index", names[1]))
    return frozenset(parts)
