"""A dump without the columns that rules omit, what names them, and keys to rows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import SchemaError
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.statements.subject import subject_of
from pgrepl.catalog.tables import SourceTable
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.omitted import ColumnNeededError, Lacking, remove_columns
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["without_omitted"]

_OBJECT = pg_query_pb2.ObjectType
_OMITTED = "rules omit it"
_NAMES_ONE = "it names a column that rules omit, or rows that they filter"
#: Views are chosen by what they depend on.
_VIEWS = frozenset({"CreateTableAsStmt", "ViewStmt"})


def without_omitted(dump: Dump, tables: Sequence[SourceTable]) -> tuple[Dump, Sequence[LeftOut]]:
    """Take columns out of a dump; return what is not made for that, too.

    Raises
    ------
    SchemaError
        when a table cannot be made without one of them.

    """
    omitted = {table.key: table.omitted for table in tables if table.omitted}
    filtered = frozenset(table.key for table in tables if table.where)
    if not omitted and not filtered:
        return dump, ()
    reduction = _Reduction(omitted, filtered)
    before = list(reduction.reduce(dump.before_data))
    after = list(reduction.reduce(dump.after_data))
    return replace(dump, before_data=before, after_data=after), reduction.left_out


class _Reduction:
    def __init__(
        self,
        omitted: Mapping[tuple[str, str], frozenset[str]],
        filtered: Collection[tuple[str, str]],
    ) -> None:
        self._lacking = Lacking(
            lambda schema, table: omitted.get((schema, table), frozenset()),
            lambda schema, table: (schema, table) in filtered,
        )
        #: Schema, table and name of checks that are not made; comments on them follow.
        self._constraints: set[tuple[str, str, str]] = set()
        self.left_out: list[LeftOut] = []

    def reduce(self, trees: Iterable[Tree]) -> Iterator[Tree]:
        for tree in trees:
            kind, statement = statement_of(tree)
            if kind in _VIEWS:
                yield tree
            elif kind != "CommentStmt" or not self._is_removed(statement):
                yield from self._reduced(tree)

    def _reduced(self, tree: Tree) -> Iterator[Tree]:
        # The trees of a dump are what its texts are found by.
        copy = type(tree).FromString(tree.SerializeToString())
        subject = subject_of(tree)
        try:
            removed = remove_columns(copy, self._lacking)
        except ColumnNeededError as exc:
            raise SchemaError(f"{subject} cannot be made without columns: {exc}") from exc
        for part in removed.parts:
            reason = _OMITTED if part.kind == "column" else _NAMES_ONE
            self.left_out.append(LeftOut(part.kind, f"{part.name} of {subject}", reason))
            if part.kind == "constraint" and subject is not None:
                self._constraints.add((subject.schema, subject.name, part.name))
        if removed.is_left:
            yield copy if removed.is_changed else tree

    def _is_removed(self, comment: Tree) -> bool:
        names = tuple(texts(comment.object.list.items))
        return comment.objtype == _OBJECT.OBJECT_TABCONSTRAINT and names in self._constraints
