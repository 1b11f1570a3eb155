"""Foreign keys to tables whose rows rules filter: none is made, and those there go."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from psycopg.sql import SQL, Identifier

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import shown_name
from pgrepl.failpoint import reach
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.joining.late_keys import LOCK_TIMEOUT
from pgrepl.resync.joining.missing_keys import await_keys
from pgrepl.resync.sides import Sides
from pgrepl.store.rules import RULES_CHANGED
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.table_marks import read_marked_for

__all__ = ["References"]

logger = logging.getLogger(__name__)


class References:
    """Foreign keys to some tables that are about to be copied again."""

    def __init__(self, sides: Sides, tables: Sequence[SourceTable]) -> None:
        """See which of them are filtered, and leave word of those that are so no longer.

        The mark that tells it goes when the copy begins.
        """
        self._sides = sides
        self._filtered = [table for table in tables if table.where]
        with translated(sides.endpoint, "cannot read the tables"):
            other = read_marked_for(sides.target, sides.source_id, RULES_CHANGED)
            await_keys(sides, [t.key for t in tables if not t.where and t.key in other])
        reach("resync.references_awaited")

    def drop(self) -> None:
        """Drop those to tables that will not have all rows."""
        if not self._filtered:
            return
        keys = {table.key for table in self._filtered}
        keys |= {(table.root_schema, table.root_name) for table in self._filtered}
        sides = self._sides
        with translated(sides.endpoint, "cannot drop foreign keys"), sides.target.transaction():
            sides.target.execute(LOCK_TIMEOUT)
            known = read_places(sides.target, sides.source_id)
            places = list(filter(None, map(known.find, keys)))
            rows = sides.target.execute(
                "select n.nspname::text, c.relname::text, k.conname::text"
                " from unnest(%s::text[], %s::text[]) as w (schema_name, table_name)"
                " join pg_namespace pn on pn.nspname = w.schema_name"
                " join pg_class p on p.relnamespace = pn.oid and p.relname = w.table_name"
                " join pg_constraint k on k.confrelid = p.oid and k.contype = 'f'"
                " and k.conparentid = 0"
                " join pg_class c on c.oid = k.conrelid"
                " join pg_namespace n on n.oid = c.relnamespace"
                " where n.nspname = any (%s::text[]) order by 1, 2, 3",
                ([s for s, _ in places], [t for _, t in places], list(known.schemas.values())),
            ).fetchall()
            for schema, table, name in rows:
                sides.target.execute(
                    SQL("alter table {} drop constraint {}").format(
                        Identifier(schema, table), Identifier(name)
                    )
                )
                where = shown_name(schema, table)
                logger.warning(
                    "foreign key %s of %s is dropped: rules filter rows that it is to", name, where
                )
        reach("resync.references_dropped")
