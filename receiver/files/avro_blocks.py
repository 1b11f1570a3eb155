"""Avro's object container files: blocks of records, which may be appended.

The offset of a record is the place of its block's first byte and its number in the block: a block
has more bytes than records.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastavro import reader

from pgrepl.decoding.records.avro import without_logical_types
from pgrepl.decoding.records.schema import BadSchema, Field, read_avro
from pgrepl.decoding.records.serialized import Datum
from pgrepl.decoding.records.values import UNFORESEEN
from pgrepl.receiver.files.keys import split
from pgrepl.receiver.files.reader import CorruptedFileError, corrupted
from pgrepl.receiver.streams.record import Record

__all__ = ["AvroBlocks"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: The number of bytes up to which blocks are read at once, one in any case.
_READ_BYTES = 1 << 20
_MOST_VARINT_BYTES = 10
#: Avro's own libraries write blocks of kilobytes: a bigger one is none.
_MOST_BLOCK_BYTES = 1 << 30
#: The bit of a byte that says that more follow.
_MORE = 0x80


class _CutOffError(Exception):
    """The file ends inside of something: it is still being written."""


@dataclass(frozen=True, slots=True)
class _Header:
    """What stands before the first block."""

    #: As a file has it whose values come as Avro stores them: what they mean is for us to tell.
    plain: bytes
    field: Field
    sync: bytes
    size: int


@dataclass(frozen=True, slots=True)
class _Block:
    at: int
    #: Where the next one begins.
    end: int
    count: int
    data: bytes


class AvroBlocks:
    """Reads whole blocks; one without its end is still being written."""

    def __init__(self, name: str, path: Path, offset: int, key: Sequence[str]) -> None:
        """Begin at a record's offset."""
        self._name = name
        self._path = path
        self._offset = offset
        self._key = key
        self._header: _Header | None = None
        #: The first block that is not read whole.
        self._block_at = 0
        self.is_whole = True

    @property
    def offset(self) -> int:
        """The place of the next record."""
        return self._offset

    def read(self) -> Sequence[Record]:
        """Return the records of the next blocks."""
        records: list[Record] = []
        size = 0
        with self._path.open("rb") as file:
            try:
                header = self._header or self._read_header(file)
                file.seek(self._block_at)
                while size < _READ_BYTES:
                    block = self._read_block(file, header)
                    # One that was read before, or all of it but a few records.
                    if self._offset < block.end:
                        records += self._records(block, header)
                        size += len(block.data)
                    self._block_at = block.end
                    self._offset = max(self._offset, block.end)
            except _CutOffError:
                self.is_whole = os.fstat(file.fileno()).st_size == self._block_at
            except CorruptedFileError:
                # What stands before it is received; the next time it is said.
                if not records:
                    raise
        return records

    def close(self) -> None:
        """Nothing is open."""

    def _read_header(self, file: BinaryIO) -> _Header:
        if _bytes(file, len(_MAGIC)) != _MAGIC:
            raise corrupted(self._name, "is not one of Avro's: it does not begin as those do")
        found: dict[str, bytes] = {}
        while count := _varint(file):
            if count < 0:
                _varint(file)
            for _ in range(abs(count)):
                name = _bytes(file, _varint(file)).decode(errors="replace")
                found[name] = _bytes(file, _varint(file))
        sync = _bytes(file, _SYNC_BYTES)
        try:
            schema = json.loads(found["avro.schema"])
            field = read_avro(schema)
        except (BadSchema, *UNFORESEEN) as exc:
            why = exc if isinstance(exc, BadSchema) else type(exc).__name__
            raise corrupted(self._name, f"has a schema that cannot be used: {why}") from exc
        plain = json.dumps(without_logical_types(schema)).encode()
        own = {"avro.schema": plain, "avro.codec": found.get("avro.codec", b"null")}
        self._block_at = file.tell()
        self._header = _Header(_write_header(own, sync), field, sync, self._block_at)
        return self._header

    def _read_block(self, file: BinaryIO, header: _Header) -> _Block:
        at = file.tell()
        count, size = _varint(file), _varint(file)
        head = file.tell() - at
        if count < 0 or size < count or size > _MOST_BLOCK_BYTES:
            raise corrupted(self._name, f"has no block at byte {at}")
        file.seek(at)
        data = _bytes(file, head + size + _SYNC_BYTES)
        if data[-_SYNC_BYTES:] != header.sync:
            raise corrupted(self._name, f"has no block at byte {at}")
        return _Block(at, at + len(data), count, data)

    def _records(self, block: _Block, header: _Header) -> Iterator[Record]:
        place, at_us = (self._name, 0), time.time_ns() // 1000
        try:
            values = list(reader(io.BytesIO(header.plain + block.data)))
        except Exception:  # noqa: BLE001  whatever fastavro raises on bytes that are no such values
            problem = f"a block of {block.count} records cannot be read"
            yield Record(place, block.at, block.end, None, block.data, at_us, problem=problem)
            return
        each = len(block.data) // max(1, block.count)
        for number, value in enumerate(values):
            offset = block.at + number
            if offset < self._offset:
                continue
            is_last = number == block.count - 1
            key, own = split(Datum(value, header.field), self._key)
            following = block.end if is_last else offset + 1
            yield Record(place, offset, following, key, own, at_us, read_bytes=each)


def _bytes(file: BinaryIO, count: int) -> bytes:
    if count > _READ_BYTES and file.tell() + count > os.fstat(file.fileno()).st_size:
        raise _CutOffError
    data = file.read(max(0, count))
    if len(data) < count:
        raise _CutOffError
    return data


def _varint(file: BinaryIO) -> int:
    """Read a number in Avro's zigzag form."""
    value = 0
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        (byte,) = _bytes(file, 1)
        value |= (byte % _MORE) << shift
        if byte < _MORE:
            return (value >> 1) ^ -(value & 1)
    return -1


def _write_header(pairs: dict[str, bytes], sync: bytes) -> bytes:
    parts = [_MAGIC, _zigzag(len(pairs))]
    for name, value in pairs.items():
        parts += [_zigzag(len(name)), name.encode(), _zigzag(len(value)), value]
    return b"".join([*parts, _zigzag(0), sync])


def _zigzag(number: int) -> bytes:
    """Write a number that is not negative in Avro's form."""
    number <<= 1
    found = bytearray()
    while number >= _MORE:
        found.append(number % _MORE | _MORE)
        number >>= 7
    return bytes((*found, number))
