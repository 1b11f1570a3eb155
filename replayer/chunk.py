"""A shard's part of a batch, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.decoding.wal2json.by_table import Sorter
from pgrepl.decoding.wal2json.table_changes import TableChanges
from pgrepl.postgres import Connection
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.spooled import PartKey, read_parts
from pgrepl.replayer.tables import Table, TableName, Tables

__all__ = ["Chunk", "read_chunks"]

#: Applying a table's part of a chunk costs some milliseconds, however little it is.
_TABLE_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some parts of the spool, their changes sorted by table."""

    keys: Sequence[PartKey]
    changes: Mapping[TableName, TableChanges]
    #: Tables whose changes are not applied.
    ignored: Mapping[TableName, Table]


def read_chunks(
    connection: Connection,
    tables: Tables,
    *,
    source_id: int,
    from_seq: int,
    to_seq: int,
    buckets: Sequence[int],
    settings: ReplaySettings,
) -> Generator[Chunk, None, None]:
    """Return the parts of some buckets behind one segment up to another, chunk by chunk."""
    sorter = Sorter(tables.look_up)
    keys: list[PartKey] = []
    size = 0
    for part in read_parts(connection, source_id, from_seq, to_seq, buckets):
        sorter.take_payload(part.payload, part.change_count, part.bucket)
        keys.append(part.key)
        size += len(part.payload)
        if size >= _limit(len(sorter.changes), settings):
            yield Chunk(keys, sorter.changes, sorter.ignored)
            sorter = Sorter(tables.look_up)
            keys, size = [], 0
    if keys:
        yield Chunk(keys, sorter.changes, sorter.ignored)


def _limit(table_count: int, settings: ReplaySettings) -> int:
    """Return how big a chunk of so many tables may become."""
    wanted = max(settings.step_bytes, table_count * _TABLE_BYTES)
    return min(wanted, settings.chunk_bytes)
