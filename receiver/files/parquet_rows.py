"""Parquet files: whole or not there, and the number of a row is its offset."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.serialized import Datum
from pgrepl.receiver.files.arrow_types import field_of, normal_type, stored_type
from pgrepl.receiver.files.keys import split
from pgrepl.receiver.files.reader import corrupted
from pgrepl.receiver.streams.record import Record

__all__ = ["ParquetRows"]

#: The number of rows that are read at once.
_ROWS = 5000


class ParquetRows:
    """Reads rows; the file stays open until its end."""

    def __init__(self, name: str, path: Path, offset: int, key: Sequence[str]) -> None:
        """Begin at a row."""
        self._name = name
        self._offset = offset
        self._key = key
        try:
            self._file = parquet.ParquetFile(path)
            schema = self._file.schema_arrow
            self._field = Field("", "struct", parts=tuple(map(field_of, schema)))
            normal = [(own.name, normal_type(own.type)) for own in schema]
            self._normal = pa.schema(normal)
            self._stored = pa.schema([(name, stored_type(kind)) for name, kind in normal])
        except (pa.ArrowException, ValueError, OSError) as exc:
            raise corrupted(name, f"cannot be read: {exc}") from exc
        self._batches = self._read_batches()

    @property
    def offset(self) -> int:
        """The number of the next row."""
        return self._offset

    @property
    def is_whole(self) -> bool:
        """A file that can be opened is whole."""
        return True

    def read(self) -> Sequence[Record]:
        """Return the next rows."""
        try:
            rows = next(self._batches, [])
        except (pa.ArrowException, ValueError, OSError) as exc:
            raise corrupted(self._name, f"cannot be read after row {self._offset}: {exc}") from exc
        at_us = time.time_ns() // 1000
        records = []
        for row, size in rows:
            key, value = split(Datum(row, self._field), self._key)
            offset = self._offset
            records.append(
                Record((self._name, 0), offset, offset + 1, key, value, at_us, read_bytes=size)
            )
            self._offset += 1
        return records

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_batches(self) -> Iterator[list[tuple[dict[str, Any], int]]]:
        """Return rows from the offset on, without the groups before it."""
        skip = self._offset
        groups: list[int] = []
        for number in range(self._file.metadata.num_row_groups):
            count = self._file.metadata.row_group(number).num_rows
            if not groups and skip >= count:
                skip -= count
            else:
                groups.append(number)
        if not groups:
            return
        for batch in self._file.iter_batches(_ROWS, row_groups=groups):
            taken = batch.slice(skip)
            skip -= batch.num_rows - taken.num_rows
            if taken.num_rows:
                each = taken.nbytes // taken.num_rows
                table = pa.Table.from_batches([taken]).cast(self._normal).cast(self._stored)
                rows = table.to_pylist(maps_as_pydicts="strict")
                yield [(row, each) for row in rows]
