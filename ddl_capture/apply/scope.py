"""Which of a command's tables are replicated, and whether the command is about any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.config.naming import is_system_schema
from pgrepl.ddl_capture.apply.statement.subject import (
    altered_tables,
    read_subject,
    renamed_schema,
)
from pgrepl.ddl_capture.apply.structure.differences import mapped_name
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["CREATING", "Scope"]

_OBJECT = pg_query_pb2.ObjectType
#: Commands whose tables had no rows before.
CREATING = frozenset({"CREATE TABLE", "CREATE TABLE AS", "SELECT INTO", "CREATE SCHEMA"})
_DROPPING = frozenset({"DropStmt", "DropOwnedStmt"})
#: What is said of those that are of no table.
_OF_TABLES = {"IndexStmt": "it is no index of a table", "CreateStatsStmt": "it is of no table"}


@dataclass(frozen=True, slots=True)
class Scope:
    """What of one command concerns the target."""

    target: Workspace
    event: CapturedEvent
    #: Structures of tables after it.
    tables: Sequence[TableDefinition]

    def is_selected(self, table: TableDefinition) -> bool:
        """Whether the patterns match a table, and it is one that can be replicated."""
        return (
            self.target.source.selection.matches(*table.root)
            and table.persistence == "p"
            and not table.is_extension_member
        )

    def replicated(self) -> list[TableDefinition]:
        """Return the command's tables that are replicated."""
        return [
            table
            for table in self.tables
            if self.is_selected(table) and table.schema in self.target.names.schemas
        ]

    def is_replicated(self, table: TableName) -> bool:
        """Whether a table that is only known by its name is replicated."""
        return (
            self.target.source.selection.matches(*table) and table[0] in self.target.names.schemas
        )

    def reason_to_leave_out(self, tree: Tree) -> str | None:
        """Return why a statement concerns nothing that is replicated; None when it does."""
        kind, statement = statement_of(tree)
        self._check_clashes()
        if self.event.kind == "start":
            return self._reason_not_to_fill(statement.into.rel)
        if kind in _DROPPING:
            return None
        if kind == "AlterObjectSchemaStmt" and is_system_schema(statement.newschema):
            return "a schema of PostgreSQL's own has no place for it on the target"
        if self.tables:
            is_any = any(map(self.is_selected, self.tables)) or self._leaves(tree)
            return None if is_any else "none of its tables is replicated"
        if kind in _OF_TABLES:
            return _OF_TABLES[kind]
        # Of privileges the source tells nothing.
        schemas = {item.schema or item.name for item in self.event.objects} - {None}
        is_elsewhere = schemas and schemas.isdisjoint(self.target.names.schemas)
        return "its schema is not replicated" if is_elsewhere else None

    def is_reachable(self, tree: Tree | None) -> bool:
        """Whether all that a command did shows in the structure of tables that the source tells."""
        tables = self.replicated()
        if not tables or (tree is not None and statement_of(tree)[0] in _DROPPING):
            return False
        there = {(relation.schema, relation.name) for relation in self.target.relations()}
        is_there = [mapped_name(table, self.target.names) in there for table in tables]
        if self.event.tag in CREATING:
            # One that is there is another one, unless a command that an event trigger of the user
            # ran before this one's end brought it.
            oids = self.target.source_oids()
            return all(
                not is_this_there or (table.oid is not None and oids.get(table.key) == table.oid)
                for table, is_this_there in zip(tables, is_there, strict=True)
            )
        # A table that is not there may have another name.
        return all(is_there) and not (tree is not None and _is_moved(tree))

    def is_absent(self, tree: Tree) -> bool:
        """Whether a table or schema that is to be altered was none of the replicated so far."""
        renamed = renamed_schema(tree)
        if renamed is not None:
            return renamed[0] not in self.target.known
        altered = altered_tables(tree)
        if not altered:
            return False
        there = {(relation.schema, relation.name) for relation in self.target.relations()}
        schemas = self.target.names.schemas
        path = [schemas[schema] for schema in self.event.path if schema in schemas]
        return not all(
            any((place, name) in there for place in ([schemas.get(schema)] if schema else path))
            for schema, name in altered
        )

    def destination(self, tree: Tree) -> str | None:
        """Return the schema into which a statement puts what the target has."""
        renamed, subject = renamed_schema(tree), read_subject(tree)
        if renamed is not None:
            return renamed[1] if renamed[0] in self.target.known else None
        if subject is None or not subject.is_moved:
            return None
        is_there = self.target.find_schema(subject.schema, subject.name) is not None
        return str(tree.alter_object_schema_stmt.newschema) if is_there else None

    def names_before(self, tree: Tree) -> list[TableName]:
        """Return what tables may have been called that a statement gives another name or schema."""
        renamed = renamed_schema(tree)
        if renamed is not None:
            return [(renamed[0], table.name) for table in self.tables]
        if not _is_moved(tree):
            return []
        return [
            (place, name)
            for schema, name in altered_tables(tree)
            for place in ([schema] if schema else self.event.path)
        ]

    def _check_clashes(self) -> None:
        """Refuse to put anything into a schema of the target that is not the source's."""
        named = {item.schema or item.name for item in self.event.objects}
        for schema in named & set(self.target.clashes):
            raise RefusedError(
                f'schema "{self.target.clashes[schema or ""]}" exists on the target and is not'
                " this source's"
            )

    def _leaves(self, tree: Tree) -> bool:
        """Whether a replicated table gets a name that no pattern matches."""
        kind, _ = statement_of(tree)
        renamed = renamed_schema(tree)
        if renamed is not None:
            return renamed[0] in self.target.known
        return kind in ("RenameStmt", "AlterObjectSchemaStmt") and any(
            self.target.is_replicated((place, name))
            for schema, name in altered_tables(tree)
            for place in ([schema] if schema else self.event.path)
        )

    def _reason_not_to_fill(self, relation: Tree) -> str | None:
        schema = relation.schemaname or next(iter(self.event.path), "")
        if relation.relpersistence != "p" or schema == "pg_temp":
            return "it is not a permanent table"
        if not self.target.source.selection.matches(schema, relation.relname):
            return "the patterns do not match it"
        return None if self.replicated() else "it made no table"


def _is_moved(tree: Tree) -> bool:
    """Whether a statement gives a table another name or schema."""
    kind, statement = statement_of(tree)
    return kind == "AlterObjectSchemaStmt" or (
        kind == "RenameStmt"
        and statement.rename_type in (_OBJECT.OBJECT_SCHEMA, _OBJECT.OBJECT_TABLE)
    )
