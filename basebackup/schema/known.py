"""A dump without what the target has already: for tables that join a copy that is there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.statements.subject import Subject, subject_of
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.syntax.nodes import definition_of
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Known", "read_known", "without_known"]

_AT = pg_query_pb2.AlterTableType
_FOREIGN = pg_query_pb2.ConstrType.CONSTR_FOREIGN


@dataclass(frozen=True, slots=True)
class Known:
    """What the target has, by names on the source."""

    #: Catalogue, schema and name; what arguments a function has is no matter here.
    objects: frozenset[tuple[str, str, str]] = frozenset()
    #: Schema, table and name of constraints.
    constraints: frozenset[tuple[str, str, str]] = frozenset()

    def has(self, subject: Subject | None) -> bool:
        """Whether the target has the object that a statement is about."""
        return (
            subject is not None and (subject.catalog, subject.schema, subject.name) in self.objects
        )

    def has_table(self, key: tuple[str, str]) -> bool:
        """Whether the target has a table."""
        return ("pg_class", *key) in self.objects


@dataclass(frozen=True, slots=True)
class Rest:
    """A dump without what is known."""

    dump: Dump
    #: What attaches new partitions to tables that are known: to be run when all else is done.
    attach: list[Tree] = field(default_factory=list)


def read_known(
    connection: Connection, schemas: dict[str, str], renamed: Mapping[tuple[str, str], str]
) -> Known:
    """Read what is in the target's schemas, given as source schema to target schema.

    ``renamed``: what tables are called on the source that have another name there.
    """
    names = {target: source for source, target in schemas.items()}
    rows = connection.execute(
        load_query("pgrepl.basebackup", "known_objects"), {"schemas": list(names)}
    ).fetchall()
    return Known(
        frozenset(
            (what, names[schema], renamed.get((schema, name), name))
            for what, schema, _, name in rows
            if what != "fk"
        ),
        frozenset(
            (names[schema], renamed.get((schema, table), table), name)
            for what, schema, table, name in rows
            if what == "fk"
        ),
    )


def without_known(dump: Dump, known: Known) -> Rest:
    """Take out of a dump what the target has."""
    attach: list[Tree] = []
    before = list(_before(dump.before_data, known, attach))
    after = [tree for tree in dump.after_data if _is_new(tree, known)]
    return Rest(replace(dump, before_data=before, after_data=after), attach)


def _before(trees: Iterable[Tree], known: Known, attach: list[Tree]) -> Iterator[Tree]:
    for tree in trees:
        if not known.has(subject_of(tree)):
            yield tree
            continue
        kind, statement = statement_of(tree)
        if kind != "AlterTableStmt":
            continue
        command = statement.cmds[0].alter_table_cmd
        if command.subtype == _AT.AT_AttachPartition:
            child = definition_of(command).partition_cmd.name
            if not known.has_table((child.schemaname, child.relname)):
                attach.append(tree)


def _is_new(tree: Tree, known: Known) -> bool:
    subject = subject_of(tree)
    if subject is None or not known.has(subject):
        return True
    kind, statement = statement_of(tree)
    if kind != "AlterTableStmt":
        return False
    command = statement.cmds[0].alter_table_cmd
    if command.subtype != _AT.AT_AddConstraint:
        return False
    constraint = definition_of(command).constraint
    # A foreign key of a table that is there, to one that is new.
    return (
        constraint.contype == _FOREIGN
        and not known.has_table((constraint.pktable.schemaname, constraint.pktable.relname))
        and (subject.schema, subject.name, constraint.conname) not in known.constraints
    )
