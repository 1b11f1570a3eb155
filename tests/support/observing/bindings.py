"""A target with a source in it, to publish bindings on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgrepl.config.dsn import Side
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.store.migrations import migrate
from pgrepl.store.progress.bindings import publish
from tests.support.database import Database


@contextmanager
def target_connection(target: Database) -> Iterator[Connection]:
    endpoint = target.endpoint(Side.TARGET)
    with connect(endpoint, "test") as connection:
        migrate(connection, endpoint)
        yield connection


def add_streaming_source(target: Database, name: str = "shop") -> int:
    """Record a source as copied at 0/100, with two shards there; nothing of it exists."""
    with target_connection(target) as connection:
        ((source_id,),) = connection.execute(
            "insert into replication.source"
            " (name, slot, dbname, system_identifier, timeline, state, consistent_point)"
            " values (%s, %s, %s, 1, 1, 'streaming', '0/100') returning source_id",
            (name, f"no_slot_{name}", name),
        ).fetchall()
        connection.execute(
            "insert into replication.shard_progress"
            " (source_id, shard, shard_count, applied_seq, applied_lsn)"
            " select %s, shard, 2, 0, '0/100' from generate_series(0, 1) shard",
            (source_id,),
        )
    return int(source_id)


def publish_at(target: Database, source_id: int, *lsns: int) -> list[bool]:
    """Publish LSNs as the replayer does, each in a transaction of its own."""
    with target_connection(target) as connection:
        return [publish(connection, source_id, Lsn(lsn)) for lsn in lsns]


def spool(target: Database, source_id: int, seq: int, first: int, last: int) -> None:
    """Put a segment into the spool, with one bucket for each of two shards."""
    with target_connection(target) as connection:
        connection.execute(
            "insert into replication.raw_messages (source_id, seq, bucket, part, kind, first_lsn,"
            " last_lsn, first_commit_at, last_commit_at, change_count, format, encoding, payload)"
            " select %s, %s, bucket, bucket, 'parallel', %s, %s, now(), now(), 1, 'wal2json',"
            " 'UTF8', '{}'"
            " from generate_series(0, 1) bucket",
            (source_id, seq, Lsn(first), Lsn(last)),
        )


def apply(target: Database, source_id: int, shard: int, seq: int, lsn: int) -> None:
    """Move a shard on."""
    with target_connection(target) as connection:
        connection.execute(
            "update replication.shard_progress set applied_seq = %s, applied_lsn = %s"
            " where source_id = %s and shard = %s",
            (seq, Lsn(lsn), source_id, shard),
        )
