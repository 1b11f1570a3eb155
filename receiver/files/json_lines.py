"""Files of JSON lines: a record a line, and the place of a byte is an offset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pgrepl.decoding.records.serialized import Datum, JsonReader, read_json
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.files.keys import split
from pgrepl.receiver.files.reader import corrupted
from pgrepl.receiver.streams.record import Record

__all__ = ["JsonLines"]

_READ_BYTES = 1 << 20
#: No value of PostgreSQL's is longer; a file without any line is not read into memory.
_MOST_LINE_BYTES = 1 << 30

#: Of a line; headers tell nothing that the files need.
_FIELDS = frozenset({"key", "value", "headers"})


class JsonLines:
    """Reads whole lines; one without its end is still being written, unless it is an object."""

    def __init__(self, name: str, path: Path, offset: int, key: Sequence[str]) -> None:
        """Begin at a line's first byte."""
        self._name = name
        self._path = path
        self._offset = offset
        self._key = key
        self._json = JsonReader()
        self.is_whole = True

    @property
    def offset(self) -> int:
        """The first byte of the next line."""
        return self._offset

    def read(self) -> Sequence[Record]:
        """Return the next lines."""
        while True:
            data, is_end = self._read_bytes()
            lines = data.split(b"\n")
            rest = lines.pop()
            records = self._records(line + b"\n" for line in lines)
            if is_end:
                # An object ends where its brace does: nothing of it is still to come.
                self.is_whole = not rest.strip() or _is_object(rest)
                if self.is_whole and rest:
                    records += self._records((rest,))
            if records or is_end:
                return records

    def _read_bytes(self) -> tuple[bytes, bool]:
        """Return what follows, with one whole line at least if there is one; whether all of it."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(_READ_BYTES)
            is_end = len(data) < _READ_BYTES
            if not is_end and b"\n" not in data:
                data += file.readline(_MOST_LINE_BYTES)
                is_end = not data.endswith(b"\n")
                if len(data) > _MOST_LINE_BYTES:
                    raise corrupted(self._name, f"has no end of a line after byte {self._offset}")
        return data, is_end

    def _records(self, lines: Iterable[bytes]) -> list[Record]:
        at_us = time.time_ns() // 1000
        records = []
        for line in lines:
            if line.strip():
                records.append(self._record(line, at_us))
            self._offset += len(line)
        return records

    def close(self) -> None:
        """Nothing is open."""

    def _record(self, line: bytes, at_us: int) -> Record:
        place, offset, following = (self._name, 0), self._offset, self._offset + len(line)
        try:
            key, value = self._parts(read_json(line))
        except BadValue as exc:
            return Record(place, offset, following, None, line, at_us, problem=str(exc))
        return Record(place, offset, following, key, value, at_us, read_bytes=len(line))

    def _parts(self, value: object) -> tuple[Datum | None, Datum | None]:
        """Return key and value of a line; each may have a schema beside it."""
        if isinstance(value, Mapping) and "key" in value and value.keys() <= _FIELDS:
            own = value["key"], value.get("value")
            key, rest = (None if part is None else self._json.interpret(part) for part in own)
            return key, rest
        return split(self._json.interpret(value), self._key)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(read_json(text), Mapping)
    except BadValue:
        return False
