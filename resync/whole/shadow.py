"""Shadows: where the rows of a table are copied to while its readers see the old ones.

A shadow is a table of schema ``replication``, which nobody but pgrepl looks into. It has the
columns that are copied and nothing else: no key, no index, no constraint. It is not logged: after a
crash of the target it is empty, which whoever would use it finds by the number of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.resync.running_resyncs import find_orphans

__all__ = ["count_rows", "drop_orphans", "drop_shadow", "make_shadow", "shadow_place"]


def shadow_place(resync_id: int) -> tuple[str, str]:
    """Return schema and name of the shadow of a resync."""
    return "replication", f"shadow_{resync_id}"


def make_shadow(
    connection: Connection, resync_id: int, copy: tuple[str, str], columns: Sequence[str]
) -> None:
    """Make an empty shadow with columns of a table of the target, in place of an older one."""
    drop_shadow(connection, resync_id)
    connection.execute(
        SQL("create unlogged table {} as select {} from only {} with no data").format(
            Identifier(*shadow_place(resync_id)),
            SQL(", ").join(map(Identifier, columns)),
            Identifier(*copy),
        )
    )
    # It is read once, soon; nobody else would ever count its rows.
    connection.execute(
        SQL("alter table {} set (autovacuum_enabled = off)").format(
            Identifier(*shadow_place(resync_id))
        )
    )


def drop_shadow(connection: Connection, resync_id: int) -> None:
    """Drop the shadow of a resync, if there is one."""
    connection.execute(SQL("drop table if exists {}").format(Identifier(*shadow_place(resync_id))))


def count_rows(connection: Connection, place: tuple[str, str]) -> int | None:
    """Return how many rows a table of the target has; None: there is none."""
    name = Identifier(*place)
    ((is_there,),) = connection.execute(
        "select to_regclass(%s) is not null", (name.as_string(),)
    ).fetchall()
    if not is_there:
        return None
    ((count,),) = connection.execute(SQL("select count(*) from {}").format(name)).fetchall()
    return int(count)


def drop_orphans(connection: Connection, endpoint: Endpoint) -> None:
    """Drop the shadows of resyncs that are no more."""
    with translated(endpoint, "cannot drop what an earlier resync left"):
        for resync_id in find_orphans(connection):
            drop_shadow(connection, resync_id)
