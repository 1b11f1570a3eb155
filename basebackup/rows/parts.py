"""Cut tables into parts that tasks copy side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pgrepl.catalog.tables import SourceTable

__all__ = ["TablePart", "TableSize", "plan_parts"]

#: A part is never smaller: below this its two transactions cost more than they bring.
_LEAST_BYTES = 32 * 1024 * 1024
#: Nor bigger: whoever is told to end after a part is waited for.
_MOST_BYTES = 512 * 1024 * 1024
#: This number of parts per job keeps all jobs busy until shortly before the end.
_PARTS_PER_JOB = 4


@dataclass(frozen=True, slots=True)
class TableSize:
    """How big a table is on the source."""

    #: With long values, which are stored apart.
    size_bytes: int
    #: Of the rows alone: long values have no blocks here.
    block_count: int


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some blocks of a table, or the whole of it."""

    schema: str
    table: str
    size_bytes: int
    first_block: int | None = None
    end_block: int | None = None


def plan_parts(
    tables: Iterable[SourceTable], sizes: Mapping[int, TableSize], jobs: int
) -> list[TablePart]:
    """Return the parts of the tables, the biggest first; ``sizes`` are by table's OID."""
    copied = [table for table in tables if not table.is_partitioned]
    total = sum(sizes[table.oid].size_bytes for table in copied)
    part_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, total // (jobs * _PARTS_PER_JOB)))
    parts = [part for table in copied for part in _cut(table, sizes[table.oid], part_bytes)]
    return sorted(parts, key=lambda part: (-part.size_bytes, part.schema, part.table))


def _cut(table: SourceTable, size: TableSize, part_bytes: int) -> Iterator[TablePart]:
    # A table a little above the size is not worth two parts. Long values are read with their rows:
    # whatever they weigh, a block is the least that can be cut off.
    count = min(round(size.size_bytes / part_bytes), size.block_count)
    if count <= 1 or not table.columns:
        yield TablePart(table.schema, table.name, size.size_bytes)
        return
    edges = [size.block_count * index // count for index in range(count)]
    for index, first in enumerate(edges):
        # The last part has no end: whatever lies after the blocks counted is in it.
        end = edges[index + 1] if index + 1 < count else None
        yield TablePart(table.schema, table.name, size.size_bytes // count, first or None, end)
