"""A shard's part of a batch, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.decoding.changes import TableChanges
from pgrepl.decoding.payload import ChangesByTable, PayloadDecoder
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.target_table import Table, TableName, Tables
from pgrepl.store.spool_rows import PartKey, read_parts

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
    """Return the parts of some buckets after one segment up to another, chunk by chunk."""
    decoder: PayloadDecoder | None = None
    grouped: ChangesByTable | None = None
    keys: list[PartKey] = []
    size = 0
    for part in read_parts(connection, source_id, from_seq, to_seq, buckets):
        if grouped is not None and part.decoder is not decoder:
            # The receiver was upgraded, or told to use another plugin.
            yield _chunk(keys, grouped, tables)
            grouped = None
        if grouped is None:
            decoder = part.decoder
            grouped = decoder.group_by_table(tables.look_up)
            keys, size = [], 0
        grouped.take_payload(part.payload, part.change_count, part.bucket)
        keys.append(part.key)
        size += len(part.payload)
        if size >= _limit(len(grouped.changes), settings):
            yield _chunk(keys, grouped, tables)
            grouped = None
    if grouped is not None:
        yield _chunk(keys, grouped, tables)


def _chunk(keys: Sequence[PartKey], grouped: ChangesByTable, tables: Tables) -> Chunk:
    return Chunk(keys, grouped.changes, {name: tables.look_up(name) for name in grouped.ignored})


def _limit(table_count: int, settings: ReplaySettings) -> int:
    """Return how big a chunk of so many tables may become."""
    wanted = max(settings.step_bytes, table_count * _TABLE_BYTES)
    return min(wanted, settings.chunk_bytes)
