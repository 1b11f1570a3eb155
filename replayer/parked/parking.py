"""Keep the changes of a table that cannot be applied, in order, until its cause is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.apply import CopyLocked
from pgrepl.replayer.shard.apply import TableFailed, TableLocked
from pgrepl.replayer.shard.merging.merge_sets import Outcome
from pgrepl.replayer.target_table import TableName
from pgrepl.store.locked import set_aside
from pgrepl.store.parked import ParkedMessage, add_message, park_failed
from pgrepl.store.resync.resync_queue import is_due, mark_due
from pgrepl.store.spool.spool_rows import PartKey, read_part
from pgrepl.store.tables.source_tables import count_conflicts
from pgrepl.store.tables.table_marks import mark_changed, mark_void, may_have_lost

__all__ = ["Place", "add_parts", "add_payload", "count_conflict", "park"]

#: Unique and exclusion violations.
_OTHER_ROWS = frozenset({"23505", "23P01"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in the spool some changes stood."""

    seq: int
    part: int
    piece: int
    first_lsn: Lsn
    last_lsn: Lsn
    #: PostgreSQL's text of the time.
    last_commit_at: str


def park(connection: Connection, source_id: int, name: TableName, failed: TableFailed) -> bool:
    """Park a table, in the transaction that could not apply its changes; whether it is parked.

    A table that is due for a copy is not: its rows prove nothing. Its changes are passed over from
    here on, as the copy will hold them; that may be under way in chunks, and then a lock is waited
    for. Nor is one whose rows are not as expected because changes were not sent: no change that
    waits could be applied later. One that another session locks goes on by itself later.
    """
    if is_due(connection, source_id, name) and not isinstance(failed, CopyLocked):
        mark_void(connection, source_id, name)
        return False
    if isinstance(failed, TableLocked):
        set_aside(connection, source_id, name, failed.reason)
        return True
    if _is_about_rows(failed) and _have_copied(connection, source_id, name, failed):
        return False
    park_failed(connection, source_id, name, failed.sqlstate, failed.reason)
    count_conflict(connection, source_id, name, failed.outcome)
    return True


def _is_about_rows(failed: TableFailed) -> bool:
    """Whether rows of the target are not as the change expects them."""
    outcome = failed.outcome
    return failed.sqlstate in _OTHER_ROWS or bool(outcome.missing_count or outcome.extra_count)


def _have_copied(
    connection: Connection, source_id: int, name: TableName, failed: TableFailed
) -> bool:
    """Have a table that may have lost changes copied; False: it cannot have lost any.

    As long as it has no replica identity it would lose more: then it waits for a person, as any
    table that lost changes.
    """
    has_lost = may_have_lost(connection, source_id, name)
    if has_lost is False:
        return False
    reason = f"changes of it were not sent, and a later one fails: {failed.reason}"
    mark_changed(connection, source_id, name, reason)
    mark_void(connection, source_id, name)
    if has_lost:
        mark_due(connection, source_id, name, reason)
    count_conflict(connection, source_id, name, failed.outcome)
    return True


def add_parts(
    connection: Connection, source_id: int, name: TableName, keys: Iterable[PartKey]
) -> None:
    """Add a parked table's changes out of some parts of the spool."""
    for key in keys:
        part = read_part(connection, source_id, key)
        messages = part.decoder.extract(part.payload, name)
        place = Place(
            seq=key.seq,
            part=key.part,
            piece=0,
            first_lsn=part.first_lsn,
            last_lsn=part.last_lsn,
            last_commit_at=part.last_commit_at,
        )
        add_payload(connection, source_id, name, place, decoder=part.decoder, messages=messages)


def add_payload(
    connection: Connection,
    source_id: int,
    name: TableName,
    place: Place,
    *,
    decoder: PayloadDecoder,
    messages: Sequence[bytes],
) -> None:
    """Add changes of a parked table, begin messages among them."""
    change_count = sum(not decoder.is_begin(message) for message in messages)
    if change_count:
        message = ParkedMessage(
            seq=place.seq,
            part=place.part,
            piece=place.piece,
            change_count=change_count,
            format=decoder.format,
            encoding=decoder.encoding,
            payload=decoder.join(messages),
        )
        add_message(
            *(connection, source_id, name, message),
            first_lsn=place.first_lsn,
            last_lsn=place.last_lsn,
            last_commit_at=place.last_commit_at,
        )


def count_conflict(
    connection: Connection, source_id: int, name: TableName, outcome: Outcome
) -> None:
    """Count rows of the target that were not as expected."""
    if outcome.missing_count or outcome.extra_count:
        count_conflicts(
            *(connection, source_id, name),
            missing=outcome.missing_count,
            extra=outcome.extra_count,
        )
