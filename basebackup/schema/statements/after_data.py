"""The statements of a dump that stand after its data: keys, indexes, foreign keys, properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.schema.errors import unknown_statement
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.plan import Phase, SchemaWork
from pgrepl.basebackup.schema.statements.skipped import left_out_comment
from pgrepl.basebackup.schema.statements.subject import Subject, statistics_of
from pgrepl.syntax.nodes import definition_of, texts
from pgrepl.syntax.parse import Tree

__all__ = ["AfterData"]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_OBJECT = pg_query_pb2.ObjectType
_INDEX_CONSTRAINTS = frozenset({_CON.CONSTR_PRIMARY, _CON.CONSTR_UNIQUE, _CON.CONSTR_EXCLUSION})


class AfterData:
    """Sorts what is neither skipped nor a view's."""

    def __init__(self, work: SchemaWork) -> None:
        """Begin when all that stands before the data is sorted."""
        self._work = work
        self._foreign_keys: set[tuple[str, str]] = set()

    def take(self, tree: Tree, kind: str, statement: Tree, subject: Subject | None) -> None:
        """Sort one statement."""
        handlers: Mapping[str, Callable[[Tree, Tree, Subject], None]] = {
            "AlterDomainStmt": self._take_domain,
            "AlterStatsStmt": self._take_of_statistics,
            "AlterTableStmt": self._take_alter,
            "CommentStmt": self._take_comment,
            "CreateStatsStmt": self._take_statistics,
            "IndexStmt": self._take_index,
        }
        if kind not in handlers:
            raise unknown_statement(kind)
        if subject is not None:
            handlers[kind](tree, statement, subject)
        elif kind == "CommentStmt":
            self._take_index_comment(tree, statement)

    def _take_index(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        is_ours = (subject.schema, subject.name) in self._work.tables
        if is_ours and self._work.is_index_wanted(statement, subject):
            self._work.made.add((subject.schema, statement.idxname))
            self._work.add_statement("key", subject, tree)

    def _take_property(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        del statement
        if (subject.schema, subject.name) in self._work.tables:
            self._work.add_statement("property", subject, tree)

    def _take_statistics(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        if (subject.schema, subject.name) in self._work.tables:
            self._work.statistics[statistics_of(statement)] = "property"
        self._take_property(tree, statement, subject)

    def _take_of_statistics(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        del statement
        if subject in self._work.statistics:
            self._work.add_statement(self._work.statistics[subject], subject, tree)

    def _take_domain(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        """Take a check that is not valid: rows, and what keys compute of them, may break it."""
        del statement
        if self._work.is_wanted(subject):
            self._work.add_statement("property", subject, tree)

    def _take_comment(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        if statement.objtype == _OBJECT.OBJECT_TABCONSTRAINT:
            names = texts(statement.object.list.items)
            if (names[0], names[2]) in self._foreign_keys:
                # Foreign keys come late, those of partitioned tables after all others.
                self._work.add_statement("view", subject, tree)
                return
            if (names[0], names[2]) not in self._work.made:
                return
        if statement.objtype == _OBJECT.OBJECT_STATISTIC_EXT:
            self._take_of_statistics(tree, statement, subject)
        elif statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT:
            self._take_domain(tree, statement, subject)
        else:
            self._take_property(tree, statement, subject)

    def _take_index_comment(self, tree: Tree, statement: Tree) -> None:
        names = texts(statement.object.list.items)
        if statement.objtype == _OBJECT.OBJECT_INDEX:
            subject = Subject("pg_class", names[0], names[1])
            if tuple(names) in self._work.made:
                self._work.add_statement("property", subject, tree)
            elif tuple(names) in self._work.made_late:
                self._work.add_statement("view", subject, tree)
        else:
            self._work.plan.left_out += left_out_comment(statement)

    def _take_alter(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        command = statement.cmds[0].alter_table_cmd
        if statement.objtype == _OBJECT.OBJECT_INDEX:
            self._take_alter_index(tree, command, subject)
        elif (subject.schema, subject.name) not in self._work.tables:
            return
        elif command.subtype == _AT.AT_AddConstraint:
            self._take_constraint(tree, definition_of(command).constraint, subject)
        elif command.subtype in (_AT.AT_ReplicaIdentity, _AT.AT_ClusterOn):
            identity = definition_of(command).replica_identity_stmt.name or command.name
            if (subject.schema, identity) in self._work.made:
                self._work.add_statement("property", subject, tree)
        else:
            self._work.add_statement("property", subject, tree)

    def _take_alter_index(self, tree: Tree, command: Tree, subject: Subject) -> None:
        if (subject.schema, subject.name) not in self._work.made:
            return
        if command.subtype == _AT.AT_AttachPartition:
            child = definition_of(command).partition_cmd.name
            if (child.schemaname, child.relname) not in self._work.made:
                return
            self._work.add_statement("attach", subject, tree)
        else:
            self._work.add_statement("property", subject, tree)

    def _take_constraint(self, tree: Tree, constraint: Tree, subject: Subject) -> None:
        if constraint.contype == _CON.CONSTR_FOREIGN:
            self._take_foreign_key(tree, constraint, subject)
            return
        self._work.made.add((subject.schema, constraint.conname))
        phase: Phase = "key" if constraint.contype in _INDEX_CONSTRAINTS else "property"
        self._work.add_statement(phase, subject, tree)

    def _take_foreign_key(self, tree: Tree, constraint: Tree, subject: Subject) -> None:
        target = (constraint.pktable.schemaname, constraint.pktable.relname)
        if target not in self._work.tables:
            self._work.plan.left_out.append(
                LeftOut(
                    "foreign key",
                    f"{constraint.conname} of {subject}",
                    f"{'.'.join(target)} is not replicated",
                )
            )
            return
        self._foreign_keys.add((subject.schema, constraint.conname))
        ends = (self._work.tables[subject.schema, subject.name], self._work.tables[target])
        if constraint.skip_validation:
            # Not valid on the source either.
            self._work.add_statement("foreign_key", subject, tree)
            return
        if any(table.is_partitioned for table in ends):
            # Of a partitioned table it cannot be NOT VALID; to one, VALIDATE skips partitions.
            self._work.add_statement("valid_foreign_key", subject, tree)
            return
        constraint.skip_validation = True
        constraint.initially_valid = False
        self._work.add_statement("foreign_key", subject, tree)
        schema = self._work.names.target_schema(subject.schema)
        validate = SQL("alter table {} validate constraint {}").format(
            Identifier(schema, subject.name), Identifier(constraint.conname)
        )
        self._work.add_step("validate", subject, validate.as_string())
