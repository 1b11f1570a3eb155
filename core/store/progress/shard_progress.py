"""How far each shard is, as rows on the target; every move is fenced."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.errors import PgreplError, Retry
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.progress.bindings import publish
from pgrepl.store.spool.kept_spool import has_passed_segments, remove_passed

__all__ = [
    "Fenced",
    "ShardPosition",
    "begin_progress",
    "change_shard_count",
    "find_behind",
    "find_followers",
    "finish",
    "follow_idle",
    "has_passed",
    "move",
    "move_all",
    "read_least_applied",
    "read_passed",
    "read_positions",
    "take_positions",
]


class Fenced(PgreplError):
    """A shard is not where this task was told: another one has done its work."""

    retry = Retry.TIMED

    def __init__(self, message: str = "a shard was moved by another task") -> None:
        """Say so; what to do next is planned again."""
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """A row of ``replication.shard_progress``."""

    shard: int
    shard_count: int
    applied_seq: int
    applied_lsn: Position
    #: Where slices of it are already, whose task died before it moved the shard; None: nowhere.
    slice_seq: int | None = None


def begin_progress(connection: Connection, source_id: int, shard_count: int) -> None:
    """Record that nothing of a source is applied, unless something is."""
    connection.execute(
        "insert into replication.shard_progress"
        " (source_id, shard, shard_count, applied_seq, applied_lsn)"
        " select s.source_id, n, %(count)s,"
        " coalesce((select min(seq) - 1 from replication.raw_messages where source_id = %(id)s),"
        "          (select last_seq from replication.receive_progress where source_id = %(id)s),"
        "          0), s.consistent_point"
        " from replication.source s cross join generate_series(0, %(count)s - 1) n"
        " where s.source_id = %(id)s and not exists"
        " (select from replication.shard_progress where source_id = %(id)s)",
        {"id": source_id, "count": shard_count},
    )


def read_positions(connection: Connection, source_id: int) -> Sequence[ShardPosition]:
    """Return where the shards of a source are."""
    with connection.cursor(row_factory=class_row(ShardPosition)) as cursor:
        return cursor.execute(
            "select p.shard, p.shard_count, p.applied_seq, p.applied_lsn, (select max(s.to_seq)"
            " from replication.applied_slice s where s.source_id = p.source_id"
            " and s.shard = p.shard) as slice_seq"
            " from replication.shard_progress p where p.source_id = %s order by p.shard",
            (source_id,),
        ).fetchall()


def find_behind(connection: Connection, shard_count: int) -> AbstractSet[int]:
    """Return the sources that may have something to apply, or another number of shards."""
    rows = connection.execute(
        "select p.source_id from replication.shard_progress p"
        " left join replication.receive_progress r using (source_id) group by p.source_id"
        " having min(p.applied_seq) < max(p.applied_seq) or max(p.shard_count) <> %s"
        " or max(r.last_seq) is null or min(p.applied_seq) < max(r.last_seq)"
        " union select source_id from replication.applied_slice",
        (shard_count,),
    )
    return {source_id for (source_id,) in rows}


def find_followers(connection: Connection) -> AbstractSet[int]:
    """Return the sources for which ``follow_idle`` may have something to do."""
    rows = connection.execute(
        "select p.source_id from replication.shard_progress p"
        " join replication.receive_progress r using (source_id) where"
        " r.received_lsn > p.applied_lsn union select source_id from replication.source s where"
        " exists (select from replication.raw_messages m where m.source_id = s.source_id)"
    )
    return {source_id for (source_id,) in rows}


def read_least_applied(connection: Connection, source_id: int) -> Lsn | None:
    """Return how far the slowest shard of a source is; None before replay began."""
    ((lsn,),) = connection.execute(
        "select min(applied_lsn) from replication.shard_progress where source_id = %s",
        (source_id,),
    ).fetchall()
    return lsn if lsn is None else Lsn(lsn)


def read_passed(connection: Connection, source_id: int) -> Lsn | None:
    """Return a position before which everything is applied; None before replay began.

    A shard that has applied all that was received is as far as that: who looks after idle sources
    says so only now and then.
    """
    ((lsn,),) = connection.execute(
        "select min(case when r.last_seq = p.applied_seq then greatest(p.applied_lsn,"
        " r.received_lsn) else p.applied_lsn end) from replication.shard_progress p"
        " left join replication.receive_progress r using (source_id) where p.source_id = %s",
        (source_id,),
    ).fetchall()
    return lsn if lsn is None else Lsn(lsn)


def take_positions(connection: Connection, source_id: int) -> None:
    """Keep every task of replay from moving a shard of a source until the transaction ends."""
    connection.execute(
        "select from replication.shard_progress where source_id = %s order by shard for update",
        (source_id,),
    )


def change_shard_count(connection: Connection, source_id: int, shard_count: int) -> None:
    """Change the number of shards of a source, all of which stand at one segment."""
    with connection.transaction():
        ((seq, lsn, least),) = connection.execute(
            "with removed as (delete from replication.shard_progress where source_id = %s"
            " returning applied_seq, applied_lsn)"
            " select max(applied_seq), max(applied_lsn), min(applied_seq) from removed",
            (source_id,),
        ).fetchall()
        if seq != least:
            raise Fenced
        connection.execute(
            "insert into replication.shard_progress"
            " (source_id, shard, shard_count, applied_seq, applied_lsn)"
            " select %s, n, %s, %s, %s from generate_series(0, %s - 1) n",
            (source_id, shard_count, seq, lsn, shard_count),
        )


def move(
    connection: Connection,
    source_id: int,
    shard: int,
    *,
    from_seq: int,
    to_seq: int,
    to_lsn: Position,
) -> None:
    """Move one shard, in the transaction that applies what lies between.

    Raises
    ------
    Fenced
        when it does not stand where it should.

    """
    moved = connection.execute(
        "update replication.shard_progress set applied_seq = %s, applied_lsn = %s,"
        " updated_at = now() where source_id = %s and shard = %s and applied_seq = %s",
        (to_seq, to_lsn, source_id, shard, from_seq),
    )
    if moved.rowcount != 1:
        raise Fenced


def move_all(
    connection: Connection, source_id: int, from_seq: int, to_seq: int, to_lsn: Position
) -> None:
    """Move every shard of a source at once."""
    moved = connection.execute(
        "update replication.shard_progress set applied_seq = %s, applied_lsn = %s,"
        " updated_at = now() where source_id = %s and applied_seq = %s"
        " returning shard_count",
        (to_seq, to_lsn, source_id, from_seq),
    ).fetchall()
    if not moved or len(moved) != moved[0][0]:
        raise Fenced


def finish(connection: Connection, source_id: int, to_seq: int, to_lsn: Position) -> None:
    """Remove what every shard has applied, and publish the position; one transaction.

    Shards that had nothing to do follow here.
    """
    with connection.transaction():
        connection.execute(
            "update replication.shard_progress p set applied_seq = %(seq)s, applied_lsn = %(lsn)s,"
            " updated_at = now() where source_id = %(id)s and applied_seq < %(seq)s and not exists"
            " (select from replication.raw_messages m where m.source_id = %(id)s"
            "  and m.seq > p.applied_seq and m.seq <= %(seq)s"
            "  and (m.bucket < 0 or m.bucket %% p.shard_count = p.shard))",
            {"id": source_id, "seq": to_seq, "lsn": to_lsn},
        )
        remove_applied(connection, source_id)


def remove_applied(connection: Connection, source_id: int) -> None:
    """Remove the segments that nobody has to read any more, and publish what is applied."""
    remove_passed(connection, source_id)
    lsn = read_least_applied(connection, source_id)
    if lsn is not None:
        publish(connection, source_id, lsn)


def follow_idle(connection: Connection, source_id: int) -> None:
    """Follow a source whose position moves on without any transaction of ours."""
    with connection.transaction():
        moved = connection.execute(
            "update replication.shard_progress p set applied_lsn = r.received_lsn,"
            " updated_at = now() from replication.receive_progress r"
            " where p.source_id = %s and r.source_id = p.source_id and r.last_seq = p.applied_seq"
            " and r.received_lsn > p.applied_lsn returning p.shard_count",
            (source_id,),
        ).fetchall()
        is_even = moved and len(moved) == moved[0][0]
        if is_even or has_passed_segments(connection, source_id):
            remove_applied(connection, source_id)


def has_passed(connection: Connection, source_id: int, position: Position) -> bool:
    """Whether the target shows everything of a source that committed before a position."""
    ((is_passed,),) = connection.execute(
        load_query("pgrepl.store.progress", "has_passed"), {"source": source_id, "lsn": position}
    ).fetchall()
    return bool(is_passed)
