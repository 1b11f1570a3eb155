"""Avro in Confluent's framing, by fastavro."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastavro import parse_schema, schemaless_reader

from pgrepl.decoding.records.schema import Field, read_avro
from pgrepl.decoding.records.serialized import KEPT, Datum
from pgrepl.decoding.records.values import BadValue

__all__ = ["AvroReader", "without_logical_types"]

#: Confluent's framing: a zero byte, the schema's number, and what Avro has.
_MAGIC = 0
_HEAD_BYTES = 5
#: A registry's numbers are Java's: there is no greater one.
_LAST_NUMBER = 2**31 - 1
#: For this time a registry is not asked again for a schema that cannot be used.
_UNUSABLE_S = 2.0


class AvroReader:
    """Reads Avro; schemas come from a registry, each of them once."""

    def __init__(self, find_schema: Callable[[int], object]) -> None:
        """Take what looks up a schema by its number; it raises BadValue for one unknown."""
        self._find_schema = find_schema
        self._known: dict[int, tuple[Any, Field]] = {}
        #: Why schemas cannot be used, and until when that holds: thousands of records may have one.
        self._unusable: dict[int, tuple[str, float]] = {}

    def read(self, data: bytes) -> Datum:
        """Read a framed value."""
        if len(data) < _HEAD_BYTES or data[0] != _MAGIC:
            raise BadValue("it is not in Confluent's framing: a zero byte and a schema's number")
        number = int.from_bytes(data[1:_HEAD_BYTES], "big")
        parsed, field = self._schema(number)
        body = io.BytesIO(data[_HEAD_BYTES:])
        try:
            value = schemaless_reader(body, parsed, None)
        except Exception as exc:
            # Whatever fastavro raises on bytes that are no such value.
            raise BadValue(f"it is not what schema {number} describes") from exc
        if body.read(1):
            raise BadValue(f"it is longer than what schema {number} describes")
        return Datum(value, field)

    def _schema(self, number: int) -> tuple[Any, Field]:
        known = self._known.get(number)
        if known is None:
            reason, until = self._unusable.get(number, ("", 0.0))
            if time.monotonic() < until:
                raise BadValue(reason)
            try:
                known = self._find(number)
            except BadValue as exc:
                if len(self._unusable) >= KEPT:
                    self._unusable.clear()
                self._unusable[number] = str(exc), time.monotonic() + _UNUSABLE_S
                raise
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[number] = known
        return known

    def _find(self, number: int) -> tuple[Any, Field]:
        if number > _LAST_NUMBER:
            raise BadValue(f"no registry has a schema {number}")
        schema = self._find_schema(number)
        try:
            field = read_avro(schema)
            return parse_schema(without_logical_types(schema)), field
        except Exception as exc:
            raise BadValue(f"schema {number} cannot be used: {exc}") from exc


def without_logical_types(schema: Any) -> Any:  # noqa: ANN401  JSON
    """Return a schema whose values come as Avro stores them: what they mean is for us to tell."""
    if isinstance(schema, Mapping):
        return {
            key: without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [without_logical_types(item) for item in schema]
    return schema
