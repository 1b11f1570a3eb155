"""Cut tables into parts that tasks copy side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pgrepl.catalogue import SourceTable

__all__ = ["BLOCK_BYTES", "Part", "plan_parts"]

#: PostgreSQL's block; a server built with another size only gets parts of another size.
BLOCK_BYTES = 8192

#: A part is never smaller: below this its two transactions cost more than they bring.
_LEAST_BYTES = 32 * 1024 * 1024
#: Nor bigger: whoever is told to end after a part is waited for.
_MOST_BYTES = 512 * 1024 * 1024
#: So many parts per job keep all jobs busy until shortly before the end.
_PARTS_PER_JOB = 4


@dataclass(frozen=True, slots=True)
class Part:
    """Some blocks of a table, or the whole of it."""

    schema: str
    table: str
    size_bytes: int
    first_block: int | None = None
    end_block: int | None = None


def plan_parts(tables: Iterable[SourceTable], sizes: Mapping[int, int], jobs: int) -> list[Part]:
    """Return the parts of the tables, the biggest first; ``sizes`` holds bytes by table's OID."""
    copied = [table for table in tables if not table.is_partitioned]
    total = sum(sizes[table.oid] for table in copied)
    part_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, total // (jobs * _PARTS_PER_JOB)))
    parts = [part for table in copied for part in _cut(table, sizes[table.oid], part_bytes)]
    return sorted(parts, key=lambda part: (-part.size_bytes, part.schema, part.table))


def _cut(table: SourceTable, size: int, part_bytes: int) -> Iterator[Part]:
    # A table a little above the size is not worth two parts.
    count = round(size / part_bytes)
    if count <= 1 or not table.columns:
        yield Part(table.schema, table.name, size)
        return
    blocks = -(-size // BLOCK_BYTES)
    edges = [blocks * index // count for index in range(count)]
    for index, first in enumerate(edges):
        # The last part has no end: whatever lies behind the blocks counted is in it.
        end = edges[index + 1] if index + 1 < count else None
        yield Part(table.schema, table.name, size // count, first or None, end)
