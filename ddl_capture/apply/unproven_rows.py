"""Rows of the target that need not be the source's, when what the source's rows fulfil fails there.

The source made a constraint for its own rows, so rows that break it are other ones. Where that can
be, because changes of the table were not sent or it is marked for a copy anyway, it is copied again
and the statement goes on. Of all other tables it is a failure that a person has to look into.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import psycopg

from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.store.resync.resync_queue import read_due
from pgrepl.store.tables.table_marks import read_needing

__all__ = ["UnprovenRows", "is_any_due"]


class UnprovenRows:
    """The tables of one command that lose their rows until they are copied."""

    def __init__(self, target: Workspace, tag: str) -> None:
        """Begin with none."""
        self._target = target
        self._reason = f"its rows break what {tag} asks of them, and the source's do not"
        self._removed: set[TableName] = set()

    def remove_breaking(
        self, error: psycopg.IntegrityError, table: TableName | None = None
    ) -> bool:
        """Remove the rows that an error is about, and have their table copied.

        Without a name in the error it is about ``table``; of a foreign key it names the table that
        refers. False: they are the source's as far as is known, or were removed before.
        """
        diag = error.diag
        named = (diag.schema_name or "", diag.table_name or "")
        there = {(item.schema, item.name) for item in self._target.relations()}
        key = named if named in there else table
        if key is None or key in self._removed or not self._find([key]):
            return False
        self._removed.add(key)
        self._target.empty(key)
        self._target.mark(key, self._reason, is_void=True)
        return True

    def have_copied(self, tables: Collection[TableName]) -> bool:
        """Have those of some tables copied whose rows need not be the source's; False: none."""
        found = self._find(tables)
        for key in found:
            self._target.mark(key, self._reason)
        return bool(found)

    def _find(self, tables: Iterable[TableName]) -> list[TableName]:
        schemas = {target: schema for schema, target in self._target.names.schemas.items()}
        needing = read_needing(self._target.connection, self._target.source_id)
        found = self._target.definitions(tables)
        return [
            key
            for key, table in found.items()
            if (schemas.get(key[0], ""), key[1]) in needing or not table.is_identified
        ]


def is_any_due(target: Workspace, tables: Iterable[TableDefinition]) -> bool:
    """Whether one of some tables, or one that they refer to, waits to be copied again."""
    keys: set[TableName] = set()
    for table in tables:
        keys.add(table.key)
        # Of a foreign key the other table's rows have to be there.
        keys.update(item.references for item in table.constraints if item.references)
    return any(table.key in keys for table in read_due(target.connection, target.source_id))
