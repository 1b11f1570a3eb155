"""Files of JSON lines: a record a line, and the place of a byte is an offset."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgrepl.decoding.records.serialized import Datum, JsonReader, read_json
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.files.keys import split
from pgrepl.receiver.streams.record import Record

__all__ = ["JsonLines"]

_READ_BYTES = 1 << 20

#: Of a line; headers tell nothing that the files need.
_FIELDS = frozenset({"key", "value", "headers"})


class JsonLines:
    """Reads whole lines; one without its end is still being written."""

    def __init__(self, name: str, path: Path, offset: int, key: Sequence[str]) -> None:
        """Begin at a line's first byte."""
        self._name = name
        self._path = path
        self._offset = offset
        self._key = key
        self._json = JsonReader()

    def read(self) -> Sequence[Record]:
        """Return the next lines."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(_READ_BYTES)
            if b"\n" not in data and len(data) == _READ_BYTES:
                data += file.readline()
        at_us = time.time_ns() // 1000
        records = []
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
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
