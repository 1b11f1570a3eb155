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
from pgrepl.store.spool.spool_rows import PartKey, Sizes, SpooledPart, read_parts
from pgrepl.store.tables.copy_start import CopyStart

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
    #: Which copies of their tables the changes are for.
    starts: Mapping[TableName, CopyStart | None] = field(default_factory=dict)


def read_chunks(
    connection: Connection,
    tables: Tables,
    *,
    source_id: int,
    from_seq: int,
    to_seq: int,
    buckets: Sequence[int],
    settings: ReplaySettings,
    sizes: Sizes,
) -> Generator[Chunk, None, None]:
    """Return the parts of some buckets after one segment up to another, chunk by chunk."""
    gathered: _Gathered | None = None
    for part in read_parts(connection, source_id, from_seq, to_seq, buckets, sizes):
        if gathered is not None and part.decoder is not gathered.parts[0].decoder:
            # The receiver was upgraded, or told to use another plugin.
            yield _chunk(gathered, tables)
            gathered = None
        if gathered is None:
            gathered = _Gathered(part.decoder.group_by_table(tables.look_up))
        gathered.take(part)
        if gathered.is_full(settings):
            yield _chunk(gathered, tables)
            gathered = None
    if gathered is not None:
        yield _chunk(gathered, tables)


@dataclass(slots=True)
class _Gathered:
    """What a chunk is made of, as far as it is read."""

    grouped: ChangesByTable
    parts: list[SpooledPart] = field(default_factory=list)
    #: What was read, and what the changes weigh that are left of it.
    read_bytes: int = 0
    change_count: int = 0
    size: int = 0

    def take(self, part: SpooledPart) -> None:
        """Add a part."""
        self.grouped.take_payload(part.payload, part.change_count, part.bucket)
        self.parts.append(part)
        self.read_bytes += part.weight
        self.change_count += part.change_count
        self.size += part.weight

    def is_full(self, settings: ReplaySettings) -> bool:
        """Whether it is to be applied; the fewer rows it is about, the more goes into it."""
        limit = _limit(self.grouped.table_count, settings)
        if self.size < limit:
            return False
        if self.read_bytes >= settings.chunk_bytes:
            return True
        left = self.grouped.condense()
        self.size = self.read_bytes * left // max(1, self.change_count)
        # With less room it would be looked at after every part.
        return self.size > limit * 3 // 4


def _chunk(gathered: _Gathered, tables: Tables) -> Chunk:
    grouped, parts = gathered.grouped, gathered.parts
    grouped.condense()
    while not tables.is_current():
        # Read as changes of tables that are not like that any more.
        grouped = parts[0].decoder.group_by_table(tables.look_up)
        for part in parts:
            grouped.take_payload(part.payload, part.change_count, part.bucket)
    # Of tables whose copies contain all that there is nothing is left.
    changes = {name: own for name, own in grouped.changes.items() if own.runs or own.problem}
    ignored = {name: tables.look_up(name) for name in grouped.ignored}
    live = {
        name: SpooledChanges(table, parts[0].decoder, _messages_of(name, parts))
        for name, table in ignored.items()
        if table.is_live
    }
    ignored = {name: table for name, table in ignored.items() if name not in live}
    starts = {name: tables.look_up(name).start for name in changes}
    return Chunk([part.key for part in parts], changes, ignored, live, starts)


def _messages_of(name: TableName, parts: Sequence[SpooledPart]) -> list[bytes]:
    """Return the changes of one table, with the begin messages of their transactions."""
    return [message for part in parts for message in part.decoder.extract(part.payload, name)]


def _limit(table_count: int, settings: ReplaySettings) -> int:
    """Return how big a chunk with that number of tables may become."""
    wanted = max(settings.step_bytes, table_count * _TABLE_BYTES)
    return min(wanted, settings.chunk_bytes)
