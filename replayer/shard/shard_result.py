"""What a task says at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgrepl.replayer.shard.apply import TableFailed
from pgrepl.replayer.shard.chunks import Chunk
from pgrepl.replayer.shard.merging.staging import StagingTable
from pgrepl.replayer.target_table import Table, TableName
from pgrepl.store.spool.spool_rows import PartKey
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["Parking", "ShardResult", "StagedTable"]


@dataclass(frozen=True, slots=True)
class Parking:
    """A table that was parked, or records of it."""

    name: TableName
    #: Why; each record has its own reason.
    reason: str = ""
    #: How many records; 0: the table.
    record_count: int = 0


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The changes of a table out of some parts, staged; or why they are not."""

    name: TableName
    keys: Sequence[PartKey]
    staging: StagingTable | None
    #: Set when they could not even be staged.
    failed: TableFailed | None = None
    #: Whether the table was copied in chunks then, which decides at the end what is applied.
    is_live: bool = False
    #: Which copy of the table they are for.
    start: CopyStart | None = None

    def is_for(self, table: Table) -> bool:
        """Whether it is of the copy that a table has now, and the table was not left alone then."""
        is_looked_at = self.staging is not None or self.failed is not None
        return is_looked_at and self.start == table.start


@dataclass(slots=True, kw_only=True)
class ShardResult:
    """What a task did."""

    source_id: int
    shard: int
    change_counts: dict[TableName, int] = field(default_factory=dict)
    #: The changes that were left when those were forgotten that later ones replace.
    left_counts: dict[TableName, int] = field(default_factory=dict)
    parked: list[Parking] = field(default_factory=list)
    #: Under batch consistency, in order.
    staged: list[StagedTable] = field(default_factory=list)
    #: Another task had done its work already.
    is_superseded: bool = False

    def count(self, chunk: Chunk) -> None:
        """Add the changes of a chunk."""
        counts = {name: changes.count for name, changes in chunk.changes.items()}
        counts |= {name: changes.count for name, changes in chunk.live.items()}
        for name, count in counts.items():
            self.change_counts[name] = self.change_counts.get(name, 0) + count
        for name, changes in chunk.changes.items():
            self.left_counts[name] = self.left_counts.get(name, 0) + changes.left_count
