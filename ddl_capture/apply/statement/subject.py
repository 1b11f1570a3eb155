"""What a statement is about, held against what the source's catalogue reported. Pure.

The catalogue's word is the one that counts. A statement that names something else is not the one
that ran, and a name without a schema gets the schema that it had on the source: on the target the
search path could lead elsewhere, because not everything of the source is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.decode.statement import UnknownStatementError
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import (
    STATEMENT_KINDS,
    StatementKind,
    object_type_of,
    statement_of,
)

__all__ = ["Subject", "altered_tables", "qualify", "read_subject", "renamed_schema"]

_OBJECT = pg_query_pb2.ObjectType
_ATTACH = pg_query_pb2.AlterTableType.AT_AttachPartition
_ALTERING = frozenset({"AlterObjectSchemaStmt", "AlterTableStmt", "RenameStmt"})
_OF_TABLES = frozenset({_OBJECT.OBJECT_TABLE, _OBJECT.OBJECT_TABCONSTRAINT})


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement is about, by the name it has in the statement."""

    schema: str | None
    name: str
    #: What it is called when the statement is done.
    new_name: str
    set_schema: Callable[[str], None]
    #: The statement moves it to another schema.
    is_moved: bool = False


def qualify(tree: Tree, event: CapturedEvent) -> None:
    """Give the statement's subject the schema that it has on the source.

    Raises
    ------
    UnknownStatementError
        when the source reported that something else was touched.

    """
    kind, statement = statement_of(tree)
    if kind == "CreateSchemaStmt" and not statement.schemaname:
        statement.schemaname = _created_schema(event)
    if event.kind == "end" and kind == "IndexStmt":
        # PostgreSQL may have chosen the name, and would choose another one here.
        _name_index(statement, event)
    subject = read_subject(tree)
    if subject is None:
        return
    if event.kind == "end":
        _agree(subject, event)
    elif subject.schema is None and event.path:
        subject.set_schema(event.path[0])


def _agree(subject: Subject, event: CapturedEvent) -> None:
    """Hold the subject against what the source touched."""
    schemas = _schemas_of(event, subject.new_name)
    if not schemas:
        raise UnknownStatementError(
            f'the statement is about "{subject.name}", which the source did not touch'
        )
    if subject.is_moved:
        return
    if subject.schema is None:
        if len(schemas) > 1:
            raise UnknownStatementError(f'"{subject.name}" may be in more than one schema')
        subject.set_schema(next(iter(schemas)))
    elif subject.schema not in schemas:
        raise UnknownStatementError(
            f'the statement is about "{subject.schema}"."{subject.name}", which the source did'
            " not touch"
        )


def _schemas_of(event: CapturedEvent, name: str) -> set[str]:
    touched = {item.schema for item in event.objects if item.name == name and item.schema}
    # Among the tables are children too, which may be called alike elsewhere.
    return touched or {table.schema for table in event.tables if table.name == name}


def _created_schema(event: CapturedEvent) -> str:
    names = [item.name for item in event.objects if item.type == "schema" and item.name]
    if len(names) != 1:
        raise UnknownStatementError("the name of the schema is not known")
    return names[0]


def _name_index(statement: Tree, event: CapturedEvent) -> None:
    names = [item.name for item in event.objects if item.type == "index" and item.name]
    if not statement.idxname and names:
        statement.idxname = names[-1] if len(names) == 1 else names[0]


def altered_tables(tree: Tree) -> list[tuple[str | None, str]]:
    """Return the tables that must be there for a statement to alter them, by schema and name."""
    kind, statement = statement_of(tree)
    if kind not in _ALTERING or object_type_of(kind, statement) not in _OF_TABLES:
        return []
    relations = [statement.relation]
    if kind == "AlterTableStmt":
        relations += [
            getattr(node.alter_table_cmd, "def").partition_cmd.name
            for node in statement.cmds
            if node.alter_table_cmd.subtype == _ATTACH
        ]
    return [(relation.schemaname or None, relation.relname) for relation in relations]


def renamed_schema(tree: Tree) -> tuple[str, str] | None:
    """Return a schema that a statement renames, and its new name."""
    kind, statement = statement_of(tree)
    if kind != "RenameStmt" or statement.rename_type != _OBJECT.OBJECT_SCHEMA:
        return None
    return statement.subname, statement.newname


def read_subject(tree: Tree) -> Subject | None:
    """Return what a statement is about; None where the rules look at it in another way."""
    kind, statement = statement_of(tree)
    if kind in ("RenameStmt", "AlterObjectSchemaStmt"):
        return _of_renamed(kind, statement)
    known = STATEMENT_KINDS.get(kind, StatementKind())
    relation, names = known.relation_in(statement), known.names_in(statement)
    if relation is not None:
        return _of_relation(relation)
    return None if names is None else _of_names(names)


_RENAMED_ITSELF = frozenset(
    {
        _OBJECT.OBJECT_FOREIGN_TABLE,
        _OBJECT.OBJECT_INDEX,
        _OBJECT.OBJECT_SEQUENCE,
        _OBJECT.OBJECT_TABLE,
        _OBJECT.OBJECT_VIEW,
    }
)
_LISTED = frozenset(
    {
        _OBJECT.OBJECT_COLLATION,
        _OBJECT.OBJECT_DOMAIN,
        _OBJECT.OBJECT_STATISTIC_EXT,
        _OBJECT.OBJECT_TYPE,
    }
)


def _of_relation(relation: Tree, new_name: str | None = None, *, is_moved: bool = False) -> Subject:
    def set_schema(schema: str) -> None:
        relation.schemaname = schema

    name = relation.relname
    return Subject(relation.schemaname or None, name, new_name or name, set_schema, is_moved)


def _of_names(nodes: Tree, new_name: str | None = None, *, is_moved: bool = False) -> Subject:
    names = texts(nodes)

    def set_schema(schema: str) -> None:
        del nodes[:]
        for name in (schema, names[-1]):
            nodes.add().string.sval = name

    schema = names[-2] if len(names) > 1 else None
    return Subject(schema, names[-1], new_name or names[-1], set_schema, is_moved)


def _of_renamed(kind: str, statement: Tree) -> Subject | None:
    is_rename = kind == "RenameStmt"
    what = statement.rename_type if is_rename else statement.object_type
    if statement.HasField("relation") and statement.relation.relname:
        is_itself = is_rename and what in _RENAMED_ITSELF
        return _of_relation(
            statement.relation, statement.newname if is_itself else None, is_moved=not is_rename
        )
    if what in _LISTED and statement.object.HasField("list"):
        return _of_names(
            statement.object.list.items,
            statement.newname if is_rename else None,
            is_moved=not is_rename,
        )
    return None
