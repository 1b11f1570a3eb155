"""A shard's part of a batch, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from pgrepl.decoding.changes import TableChanges
from pgrepl.decoding.payload import ChangesByTable
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.target_table import Table, TableName, Tables
from pgrepl.store.spool.spool_rows import PartKey, SpooledPart, read_parts

__all__ = ["Chunk", "read_chunks"]

#: Applying a table's part of a chunk costs some time, however little it is.
_TABLE_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some parts of the spool, their changes sorted by table."""

    keys: Sequence[PartKey]
    changes: Mapping[TableName, TableChanges]
    #: Tables whose changes are not applied.
    ignored: Mapping[TableName, Table]
    #: The changes of tables that are copied in chunks of their own meanwhile.
    live: Mapping[TableName, SpooledChanges] = field(default_factory=dict)


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
    parts: list[SpooledPart] = []
    grouped: ChangesByTable | None = None
    size = 0
    for part in read_parts(connection, source_id, from_seq, to_seq, buckets):
        if grouped is not None and part.decoder is not parts[0].decoder:
            # The receiver was upgraded, or told to use another plugin.
            yield _chunk(parts, grouped, tables)
            grouped = None
        if grouped is None:
            grouped = part.decoder.group_by_table(tables.look_up)
            parts, size = [], 0
        grouped.take_payload(part.payload, part.change_count, part.bucket)
        parts.append(part)
        size += part.weight
        if size >= _limit(len(grouped.changes), settings):
            yield _chunk(parts, grouped, tables)
            grouped = None
    if grouped is not None:
        yield _chunk(parts, grouped, tables)


def _chunk(parts: Sequence[SpooledPart], grouped: ChangesByTable, tables: Tables) -> Chunk:
    while not tables.is_current():
        # Read as changes of tables that are not like that any more.
        grouped = parts[0].decoder.group_by_table(tables.look_up)
        for part in parts:
            grouped.take_payload(part.payload, part.change_count, part.bucket)
    ignored = {name: tables.look_up(name) for name in grouped.ignored}
    live = {
        name: SpooledChanges(table, parts[0].decoder, _messages_of(name, parts))
        for name, table in ignored.items()
        if table.is_live
    }
    ignored = {name: table for name, table in ignored.items() if name not in live}
    return Chunk([part.key for part in parts], grouped.changes, ignored, live)


def _messages_of(name: TableName, parts: Sequence[SpooledPart]) -> list[bytes]:
    """Return the changes of one table, with the begin messages of their transactions."""
    return [message for part in parts for message in part.decoder.extract(part.payload, name)]


def _limit(table_count: int, settings: ReplaySettings) -> int:
    """Return how big a chunk with that number of tables may become."""
    wanted = max(settings.step_bytes, table_count * _TABLE_BYTES)
    return min(wanted, settings.chunk_bytes)
