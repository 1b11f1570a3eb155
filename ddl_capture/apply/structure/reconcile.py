"""The least set of statements that gives a table of the target the source's structure. Pure.

The source reports a table as it is after each command. Where the command's own text leaves another
structure on the target, or cannot run there, these statements reach it. They are made of texts that
the source wrote, so each is parsed and must be what it was meant to be: one subcommand of a known
kind on this table, or one unique index of it. Code in them is judged where they run.

What the target's owner added stays, unless this command dropped it on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgrepl.ddl_capture.apply.structure.differences import (
    canonical_constraint,
    canonical_index,
    is_referenced,
    there_of,
)
from pgrepl.ddl_capture.apply.structure.reconcile_columns import plan_columns
from pgrepl.ddl_capture.apply.structure.reconcile_step import Needless, Step, Table, alter, checked
from pgrepl.ddl_capture.definition import Constraint, Index, TableDefinition, TableName
from pgrepl.syntax.parse import quoted_names
from pgrepl.syntax.remap import SchemaMap

__all__ = ["DroppedPart", "plan_steps"]

#: A column, constraint or index of the table that the command dropped on the source.
DroppedPart = tuple[Literal["column", "constraint", "index"], str]

_KEYS = ("p", "u", "x")
_KINDS: Mapping[str, str] = {
    "c": "check",
    "f": "foreign key",
    "u": "unique constraint",
    "x": "exclusion constraint",
}
_NOT_VALID = " NOT VALID"


@dataclass(frozen=True, slots=True)
class _Part:
    """A constraint or index, by its meaning."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class _Matched:
    """Which parts of the source's table the target has."""

    #: Same, but for their names: the target's, the source's.
    misnamed: Sequence[tuple[str, str]]
    missing: Sequence[str]
    #: Of the same name and another meaning.
    changed: Sequence[str]


def plan_steps(
    source: TableDefinition,
    target: TableDefinition,
    names: SchemaMap,
    is_there: Callable[[TableName], bool],
    dropped: Collection[DroppedPart] = (),
) -> list[Step]:
    """Return the statements, in order.

    Raises
    ------
    SqlSyntaxError
        when the structure that the source reported makes other statements than these.
    RemapError
        when it names what is not replicated.

    """
    table = Table(source, target, names)
    plan = _Plan(table, is_there, frozenset(dropped))
    return list(plan.steps())


class _Plan:
    def __init__(
        self,
        table: Table,
        is_there: Callable[[TableName], bool],
        dropped: frozenset[DroppedPart],
    ) -> None:
        self._table = table
        self._is_there = is_there
        self._dropped = dropped
        source, target, names = table.source, table.target, table.names
        mine = [
            constraint
            for constraint in source.constraints
            if is_referenced(constraint, names, is_there)
        ]
        self._constraints = {constraint.name: constraint for constraint in mine}
        there = {constraint.name: constraint for constraint in target.constraints}
        self._there = there
        self._matched = _match(
            [_Part(item.name, canonical_constraint(item, names)) for item in mine],
            [_Part(item.name, canonical_constraint(item, None)) for item in target.constraints],
        )
        self._indexes = {
            index.name: index
            for index in source.unique_indexes
            if index.name not in {item.name for item in source.constraints}
        }
        self._matched_indexes = _match(
            [_Part(item.name, canonical_index(item, names)) for item in self._indexes.values()],
            [
                _Part(item.name, canonical_index(item, None))
                for item in target.unique_indexes
                if item.name not in there
            ],
        )

    def steps(self) -> Iterator[Step]:
        yield from self._leave_parents()
        yield from self._drop_parts()
        yield from self._rename_parts()
        yield from plan_columns(self._table, {n for kind, n in self._dropped if kind == "column"})
        yield from self._add_constraints(*_KEYS)
        yield from self._add_indexes()
        yield from self._add_constraints("c")
        yield from self._set_identity()
        yield from self._join_parents()
        yield from self._add_constraints("f")

    # Parents.

    def _parents(self) -> tuple[list[TableName], list[TableName]]:
        """Return the parents to leave, by names on the source, and those to join."""
        source, target = self._table.source, self._table.target
        has = [self._table.names.source_of(*parent) for parent in target.parents]
        wanted = list(source.parents)
        if not source.bound:
            wanted = list(there_of(wanted, self._table.names, self._is_there))
        is_rebound = bool(source.bound) and has == wanted and not self._table.has_same_bound()
        if is_rebound or bool(source.bound) != bool(target.bound):
            return has, wanted
        return (
            [parent for parent in has if parent not in wanted],
            [parent for parent in wanted if parent not in has],
        )

    def _leave_parents(self) -> Iterator[Step]:
        left, _ = self._parents()
        for parent in left:
            name = quoted_names(*parent)
            if self._table.target.bound:
                sql = f"alter table {name} detach partition {self._table.name}"
                yield checked(self._table, sql, "AT_DetachPartition", relation=parent)
            else:
                yield alter(self._table, f"no inherit {name}", "AT_DropInherit")

    def _join_parents(self) -> Iterator[Step]:
        _, joined = self._parents()
        for parent in joined:
            name = quoted_names(*parent)
            bound = self._table.source.bound
            if bound:
                sql = f"alter table {name} attach partition {self._table.name} {bound}"
                yield checked(self._table, sql, "AT_AttachPartition", relation=parent)
            else:
                yield alter(self._table, f"inherit {name}", "AT_AddInherit")

    # Constraints and indexes.

    def _drop_parts(self) -> Iterator[Step]:
        dropped = {name for kind, name in self._dropped if kind != "column"}
        gone = [
            name
            for name in self._there
            if name in dropped and name not in self._constraints and not self._is_renamed(name)
        ]
        for name in sorted(
            {*gone, *self._matched.changed} - self._unvalidated(),
            # Keys cannot go before the foreign keys to them.
            key=lambda name: self._there[name].type != "f",
        ):
            yield alter(self._table, f"drop constraint {quoted_names(name)}", "AT_DropConstraint")
        there = {index.name for index in self._table.target.unique_indexes} - set(self._there)
        for name in there & ({*dropped, *self._matched_indexes.changed}):
            if name in self._matched_indexes.changed or name not in self._indexes:
                sql = f"drop index {quoted_names(self._table.source.schema, name)}"
                yield checked(self._table, sql, "index")

    def _is_renamed(self, name: str) -> bool:
        return any(name == old for old, _ in self._matched.misnamed)

    def _unvalidated(self) -> set[str]:
        """Return constraints that only lack that their rows were looked at."""
        names = self._table.names
        return {
            name
            for name in self._matched.changed
            if canonical_constraint(self._there[name], None)
            == canonical_constraint(self._constraints[name], names) + _NOT_VALID
        }

    def _rename_parts(self) -> Iterator[Step]:
        """Rename by way of other names: one may have the name that another is to get."""
        for number, (old, _) in enumerate(self._matched.misnamed):
            yield self._rename_constraint(old, f"pgrepl_{number}")
        for number, (_, new) in enumerate(self._matched.misnamed):
            yield self._rename_constraint(f"pgrepl_{number}", new)
        schema = self._table.source.schema
        renamed = self._matched_indexes.misnamed
        between = [f"pgrepl_index_{number}" for number in range(len(renamed))]
        steps = [(old, name) for (old, _), name in zip(renamed, between, strict=True)]
        steps += [(name, new) for (_, new), name in zip(renamed, between, strict=True)]
        for old, new in steps:
            sql = f"alter index {quoted_names(schema, old)} rename to {quoted_names(new)}"
            yield checked(self._table, sql, "rename")

    def _rename_constraint(self, old: str, new: str) -> Step:
        sql = (
            f"alter table {self._table.name} rename constraint {quoted_names(old)}"
            f" to {quoted_names(new)}"
        )
        return checked(self._table, sql, "rename")

    def _add_constraints(self, *kinds: str) -> Iterator[Step]:
        unvalidated = self._unvalidated()
        for name in (*self._matched.missing, *self._matched.changed):
            constraint = self._constraints[name]
            if constraint.type not in kinds:
                continue
            if name in unvalidated:
                sql = f"validate constraint {quoted_names(name)}"
                yield alter(self._table, sql, "AT_ValidateConstraint", _needless(constraint))
            else:
                sql = f"add constraint {quoted_names(name)} {constraint.definition}"
                yield alter(self._table, sql, "AT_AddConstraint", _needless(constraint))

    def _add_indexes(self) -> Iterator[Step]:
        for name in (*self._matched_indexes.missing, *self._matched_indexes.changed):
            index = self._indexes[name]
            needless = Needless("index", name, index.definition)
            yield checked(self._table, index.definition, "unique index", needless=needless)

    def _set_identity(self) -> Iterator[Step]:
        source, target = self._table.source, self._table.target
        wanted = _identity_index(source.unique_indexes)
        if source.replica_identity == target.replica_identity and (
            source.replica_identity != "i" or wanted == _identity_index(target.unique_indexes)
        ):
            return
        clause = {"d": "default", "f": "full", "n": "nothing"}.get(source.replica_identity)
        if clause is None:
            if wanted is None:
                return
            clause = f"using index {quoted_names(wanted)}"
        yield alter(self._table, f"replica identity {clause}", "AT_ReplicaIdentity")


def _needless(constraint: Constraint) -> Needless | None:
    kind = _KINDS.get(constraint.type)
    return None if kind is None else Needless(kind, constraint.name, constraint.definition)


def _identity_index(indexes: Sequence[Index]) -> str | None:
    return next((index.name for index in indexes if index.is_replica_identity), None)


def _match(mine: Sequence[_Part], theirs: Sequence[_Part]) -> _Matched:
    there = {part.name: part.text for part in theirs}
    wanted = {part.name: part.text for part in mine}
    # What is right by name and meaning is nobody else's.
    free = {name: text for name, text in there.items() if wanted.get(name) != text}
    misnamed, missing, changed = [], [], []
    for part in mine:
        if there.get(part.name) == part.text:
            continue
        same = next((name for name, text in free.items() if text == part.text), None)
        if same is not None:
            del free[same]
            misnamed.append((same, part.name))
        elif part.name in there:
            changed.append(part.name)
        else:
            missing.append(part.name)
    moved = {old for old, _ in misnamed}
    # A name that is given up by a rename is free.
    missing += [name for name in changed if name in moved]
    return _Matched(misnamed, missing, [name for name in changed if name not in moved])
