"""The statements of a dump that stand before its data: what makes the tables."""

from __future__ import annotations

from collections.abc import Iterable

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.errors import unknown_statement
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.plan import SchemaWork
from pgrepl.basebackup.schema.statements.late_checks import family_tables, take_checks
from pgrepl.basebackup.schema.statements.skipped import left_out_comment
from pgrepl.basebackup.schema.statements.subject import Subject
from pgrepl.syntax.nodes import definition_of, texts
from pgrepl.syntax.parse import Tree

__all__ = ["BeforeData"]

_AT = pg_query_pb2.AlterTableType
_OBJECT = pg_query_pb2.ObjectType
_NOT_NEEDED = "no replicated table needs it"
_KINDS = {"pg_proc": "function", "pg_type": "type", "pg_class": "sequence or table"}


class BeforeData:
    """Sorts what is neither skipped nor a view's."""

    def __init__(self, work: SchemaWork, statements: Iterable[Tree]) -> None:
        """Look at all statements of the section for tables with parents or children."""
        self._work = work
        self._family = family_tables(statements)
        self._moved_checks: set[tuple[str, ...]] = set()

    def take(self, tree: Tree, kind: str, statement: Tree, subject: Subject | None) -> None:
        """Sort one statement."""
        if kind == "CommentStmt":
            self._take_comment(tree, statement, subject)
        elif subject is None:
            raise unknown_statement(kind)
        elif self._work.is_wanted(subject):
            if kind == "AlterTableStmt" and not self._has_partition(statement):
                return
            if kind == "CreateStmt" and (subject.schema, subject.name) not in self._family:
                tree = self._move_checks(tree, subject)
            self._keep_before(tree, subject)
        elif kind.startswith(("Create", "Define", "Composite")):
            what = _KINDS.get(subject.catalog, subject.catalog.removeprefix("pg_"))
            self._work.plan.left_out.append(LeftOut(what, str(subject), _NOT_NEEDED))

    def _take_comment(self, tree: Tree, statement: Tree, subject: Subject | None) -> None:
        names = tuple(texts(statement.object.list.items))
        if subject is not None and names in self._moved_checks:
            self._work.add_statement("property", subject, tree)
        elif self._work.is_wanted(subject) or statement.objtype == _OBJECT.OBJECT_SCHEMA:
            self._keep_before(tree, subject)
        elif subject is None:
            self._work.plan.left_out += left_out_comment(statement)

    def _has_partition(self, statement: Tree) -> bool:
        """Whether the copy has the table that is attached, if one is: a foreign table is not."""
        command = statement.cmds[0].alter_table_cmd
        if command.subtype != _AT.AT_AttachPartition:
            return True
        child = definition_of(command).partition_cmd.name
        return self._work.is_wanted(Subject("pg_class", child.schemaname, child.relname))

    def _move_checks(self, tree: Tree, subject: Subject) -> Tree:
        rest, checks = take_checks(tree)
        for name, alter in checks:
            self._moved_checks.add((subject.schema, subject.name, name))
            self._work.add_statement("key", subject, alter)
        return rest

    def _keep_before(self, tree: Tree, subject: Subject | None) -> None:
        item = self._work.needed.get(subject) if subject is not None else None
        self._work.plan.before.append(
            self._work.remap(tree, subject, is_evaluated=item is not None and item.is_evaluated)
        )
