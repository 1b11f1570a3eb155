"""How long the spool is kept for those who read it besides replay."""

from __future__ import annotations

import logging

from psycopg.sql import SQL

from pgrepl.postgres.connect import Connection

__all__ = ["has_passed_segments", "remove_passed"]

logger = logging.getLogger(__name__)

_PASSED = SQL(
    "(select least(min(p.applied_seq), (select min(c.seq) from replication.consumer c"
    " where c.source_id = %(id)s and c.state <> 'lost'))"
    " from replication.shard_progress p where p.source_id = %(id)s)"
)


def remove_passed(connection: Connection, source_id: int) -> None:
    """Remove the segments that all shards and all consumers have passed."""
    _let_go(connection, source_id)
    connection.execute(
        SQL("delete from replication.raw_messages where source_id = %(id)s and seq <= ") + _PASSED,
        {"id": source_id},
    )


def has_passed_segments(connection: Connection, source_id: int) -> bool:
    """Whether the spool still has what is to be removed: a process died before the end."""
    ((is_there,),) = connection.execute(
        SQL(
            "select exists (select from replication.raw_messages"
            " where source_id = %(id)s and seq <= {})"
        ).format(_PASSED),
        {"id": source_id},
    ).fetchall()
    return bool(is_there)


def _let_go(connection: Connection, source_id: int) -> None:
    """Keep the spool no longer for consumers that have not moved for too long."""
    rows = connection.execute(
        "update replication.consumer c set state = 'lost', lost_at = now()"
        " where c.source_id = %s and c.state <> 'lost' and c.moved_at < now() - c.keep"
        # Only what there is to read is missed.
        " and exists (select from replication.raw_messages m"
        " where m.source_id = c.source_id and m.seq > c.seq) returning c.name",
        (source_id,),
    )
    for (name,) in rows.fetchall():
        logger.warning(
            "consumer %s did not move for too long: the spool is not kept for it any longer",
            name,
            extra={"source_id": source_id},
        )
