"""CHECK constraints leave CREATE TABLE and come back after the data. Pure.

A check whose function looks into other tables fails while those are still empty. Tables that
inherit, are inherited from, or are partitioned keep theirs: there PostgreSQL itself merges the
constraints of parents and children while the tables are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree, parse
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["family_tables", "take_checks"]

_CHECK = pg_query_pb2.ConstrType.CONSTR_CHECK
_TEMPLATE = "alter table x add constraint x check (true)"


def family_tables(trees: Iterable[Tree]) -> set[tuple[str, str]]:
    """Return the tables of a dump that have parents or children."""
    found: set[tuple[str, str]] = set()
    for tree in trees:
        kind, statement = statement_of(tree)
        if kind == "CreateStmt":
            parents = [node.range_var for node in statement.inh_relations]
            if parents or statement.HasField("partspec"):
                found |= {_name(node) for node in (statement.relation, *parents)}
        elif kind == "AlterTableStmt":
            for command in statement.cmds:
                # The field is called "def", which is a word of Python.
                definition = getattr(command.alter_table_cmd, "def")
                if definition.HasField("partition_cmd"):
                    attached = definition.partition_cmd.name
                    found |= {_name(statement.relation), _name(attached)}
    return found


def take_checks(create: Tree) -> tuple[Tree, list[tuple[str, Tree]]]:
    """Return CREATE TABLE without its checks, and for each its name and the ALTER TABLE for it."""
    rest = type(create)()
    rest.CopyFrom(create)
    statement = rest.create_stmt
    elements = list(create.create_stmt.table_elts)
    checks = [
        node
        for node in elements
        if node.HasField("constraint") and node.constraint.contype == _CHECK
    ]
    del statement.table_elts[:]
    statement.table_elts.extend(node for node in elements if node not in checks)
    return rest, [(node.constraint.conname, _alter(statement.relation, node)) for node in checks]


def _alter(relation: Tree, check: Tree) -> Tree:
    (alter,) = parse(_TEMPLATE)
    statement = alter.alter_table_stmt
    statement.relation.CopyFrom(relation)
    definition = getattr(statement.cmds[0].alter_table_cmd, "def")
    definition.constraint.CopyFrom(check.constraint)
    # Printed inside CREATE TABLE it was valid from the start; here it is to be looked at.
    definition.constraint.initially_valid = True
    definition.constraint.skip_validation = False
    return alter


def _name(node: Tree) -> tuple[str, str]:
    return node.schemaname, node.relname
