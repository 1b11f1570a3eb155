"""Sort a dump: what makes the tables, what follows the data, and what is skipped, by name.

Pure: trees in, statements for the target out. Every statement of the dump ends up in one of the
three; one that is of no known kind, or that cannot be given the target's names, is an error.
"""

from __future__ import annotations

from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.plan import SchemaPlan, SchemaWork
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.statements.after_data import AfterData
from pgrepl.basebackup.schema.statements.before_data import BeforeData
from pgrepl.basebackup.schema.statements.skipped import LEFT_OUT, left_out_of
from pgrepl.basebackup.schema.statements.subject import Subject, statistics_of, subject_of
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.remap import SchemaMap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["sift"]

_AT = pg_query_pb2.AlterTableType
_OBJECT = pg_query_pb2.ObjectType
# Settings of pg_dump's own session, and schemas, which we make ourselves.
_IGNORED = frozenset({"VariableSetStmt", "SelectStmt", "CreateSchemaStmt"})
_VIEWS = frozenset({"CreateTableAsStmt", "ViewStmt"})


def sift(
    dump: Dump, objects: SourceObjects, names: SchemaMap, *, with_all_indexes: bool
) -> SchemaPlan:
    """Sort a dump.

    Raises
    ------
    SchemaError
        naming the statement that cannot be made to work on the target.

    """
    work = SchemaWork(objects, names, dump.texts, with_all_indexes=with_all_indexes)
    before, after = BeforeData(work, dump.before_data), AfterData(work)
    late = [tree for tree in dump.before_data if _is_late_comment(tree)]
    for tree in dump.before_data:
        if not _is_late_comment(tree):
            _take(work, before, tree)
    for tree in (*dump.after_data, *late):
        _take(work, after, tree)
    work.plan.left_out += objects.unseen
    return work.plan


def _is_late_comment(tree: Tree) -> bool:
    """Whether it is on a domain's constraint: older versions of pg_dump print it before that."""
    kind, statement = statement_of(tree)
    return kind == "CommentStmt" and bool(statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT)


def _take(work: SchemaWork, section: BeforeData | AfterData, tree: Tree) -> None:
    kind, statement = statement_of(tree)
    subject = subject_of(tree)
    if not _take_view(work, tree, kind, subject) and not _skip(work, kind, statement, subject):
        section.take(tree, kind, statement, subject)


def _take_view(work: SchemaWork, tree: Tree, kind: str, subject: Subject | None) -> bool:
    """Take a statement about a view that is wanted, or about what only views need.

    They run after the data, in the order of the dump, which is that of their dependencies.
    """
    if subject is None or (kind in LEFT_OUT and kind not in _VIEWS):
        return False
    view = work.views.get((subject.schema, subject.name))
    if view is None or subject.catalog != "pg_class":
        item = work.view_needs.get(subject)
        if item is None or work.is_wanted(subject):
            return False
        is_evaluated = item.is_evaluated
        work.add_step("view", subject, work.remap(tree, subject, is_evaluated=is_evaluated))
        return True
    if kind == "IndexStmt":
        statement = statement_of(tree)[1]
        if not work.is_index_wanted(statement, subject):
            return True
        work.made_late.add((subject.schema, statement.idxname))
    elif kind == "CreateStatsStmt":
        work.statistics[statistics_of(statement_of(tree)[1])] = "view"
    work.add_statement("view", subject, tree)
    if kind == "CreateTableAsStmt" and view.is_populated:
        name = Identifier(work.names.target_schema(view.schema), view.name)
        refresh = SQL("refresh materialized view {}").format(name)
        work.add_step("view", subject, refresh.as_string())
    return True


def _skip(work: SchemaWork, kind: str, statement: Tree, subject: Subject | None) -> bool:
    if kind in _IGNORED:
        return True
    item = left_out_of(kind, statement, subject)
    if item is not None:
        # What the patterns take in is named already.
        if (item.kind, item.name) not in work.named:
            work.plan.left_out.append(item)
        return True
    if kind == "AlterTableStmt":
        # Triggers and rules are skipped by name; how they fire goes with them.
        command = _AT.Name(statement.cmds[0].alter_table_cmd.subtype)
        return "Trig" in command or "Rule" in command
    return False
