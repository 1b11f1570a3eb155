"""``DETACH PARTITION CONCURRENTLY``, which leaves a constraint behind.

On the target a partition is detached in one go, inside the replayer's transaction; the constraint
that PostgreSQL makes of the partition's bound is then added like the source's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.ddl_capture.apply.structure.differences import mapped_name
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["DetachedPartition", "find_detached"]

_DETACH = pg_query_pb2.AlterTableType.AT_DetachPartition


@dataclass(frozen=True, slots=True)
class DetachedPartition:
    """A partition that was detached concurrently, by its name in the statement."""

    schema: str | None
    name: str

    def read_constraint(self, target: Workspace) -> tuple[TableName, str] | None:
        """Return the partition on the target and the constraint of its bound."""
        places = [self.schema] if self.schema else list(target.event.path)
        schemas = [target.names.schemas[place] for place in places if place in target.names.schemas]
        rows = target.connection.execute(
            "select n.nspname::text, pg_get_partition_constraintdef(c.oid)"
            " from unnest(%s::text[]) with ordinality as w (schema, number)"
            " join pg_namespace n on n.nspname = w.schema"
            " join pg_class c on c.relnamespace = n.oid and c.relname = %s and c.relispartition"
            " order by w.number limit 1",
            (schemas, self.name),
        ).fetchall()
        return ((rows[0][0], self.name), rows[0][1]) if rows and rows[0][1] else None

    def add_constraint(
        self,
        target: Workspace,
        found: tuple[TableName, str],
        tables: Iterable[TableDefinition],
    ) -> None:
        """Add the constraint, now that the partition stands alone.

        Not where the source made none, because others imply it: ``tables`` are as it reports them.
        """
        table, constraint = found
        here = {item.name for item in target.definitions([table])[table].constraints}
        for reported in tables:
            if mapped_name(reported, target.names) != table:
                continue
            checks = {item.name for item in reported.constraints if item.type == "c"}
            if checks <= here:
                return
        target.connection.execute(
            SQL("alter table {} add check ").format(Identifier(*table)).as_string().encode()
            + f"({constraint})".encode()
        )


def find_detached(tree: Tree) -> DetachedPartition | None:
    """Return the partition that a statement detaches concurrently, if it does."""
    kind, statement = statement_of(tree)
    if kind != "AlterTableStmt":
        return None
    for node in statement.cmds:
        command = node.alter_table_cmd
        if command.subtype == _DETACH:
            partition = getattr(command, "def").partition_cmd
            if partition.concurrent:
                return DetachedPartition(partition.name.schemaname or None, partition.name.relname)
    return None
