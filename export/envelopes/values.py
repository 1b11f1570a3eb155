"""PostgreSQL's text of a value as Debezium's events have it, by the type of its column.

Of Debezium's ways to print a type the one is taken that loses nothing: decimals, times and
intervals are texts (``decimal.handling.mode = string``, ``time.precision.mode = isostring``,
``interval.handling.mode = string``). A type that is not listed here is its text.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.values import BITS, SOURCE_TYPE
from pgrepl.export.envelopes.array_text import Elements, read_array
from pgrepl.export.envelopes.times import iso_date, iso_interval, iso_time, iso_timestamp, iso_zoned

__all__ = ["PLACEHOLDER", "ColumnType", "column_type"]

#: Stands for a value that is unchanged and was not sent, as Debezium's does.
PLACEHOLDER = "__debezium_unavailable_value"

_MODIFIER = re.compile(r"\(([^)]*)\)")
_POINT = re.compile(r"\(([^,]+),([^)]+)\)")
_TRUE = frozenset({"t", "true"})
_DATA = "io.debezium.data."
_TIME = "io.debezium.time."


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How the values of a column are handed on."""

    #: Connect's type of it; its name is empty.
    field: Field
    #: Makes the value of PostgreSQL's text; ValueError when nothing is exactly that value.
    encode: Callable[[str], Any]
    #: Stands for a value that is unchanged and was not sent; None: the type has none.
    placeholder: Any


def column_type(name: str, *, is_avro: bool = False) -> ColumnType:
    """Return how values of a type are handed on; its name is as ``format_type`` prints it."""
    # The elements of an array of boxes have another delimiter.
    if name.endswith("[]") and name != "box[]":
        return _array(name.removesuffix("[]"), is_avro=is_avro)
    modifier = _MODIFIER.search(name)
    base = "interval" if name.startswith("interval") else _MODIFIER.sub("", name)
    if base == "bit":
        return _bits(int(modifier[1]) if modifier else 1)
    if base in ("real", "double precision"):
        kind = "float32" if base == "real" else "float64"
        return ColumnType(Field("", kind), _native if is_avro else _json_float, None)
    found = _TYPES.get(base)
    if found is None:
        return ColumnType(Field("", "string"), str, PLACEHOLDER)
    kind, logical, encode = found
    placeholder = {"string": PLACEHOLDER, "bytes": PLACEHOLDER.encode()}.get(kind)
    parts = _POINT_PARTS if kind == "struct" else ()
    return ColumnType(Field("", kind, logical, parts=parts), encode, placeholder)


def _array(item_name: str, *, is_avro: bool) -> ColumnType:
    item = column_type(item_name, is_avro=is_avro)

    def encode(text: str) -> list[Any]:
        return _encode_elements(read_array(text), item, is_nested=not is_avro)

    return ColumnType(Field("", "array", parts=(item.field,)), encode, _array_placeholder(item))


def _encode_elements(elements: Elements, item: ColumnType, *, is_nested: bool) -> list[Any]:
    encoded: list[Any] = []
    for element in elements:
        if isinstance(element, list):
            if not is_nested:
                raise ValueError("an array of several dimensions has no form in Avro")
            encoded.append(_encode_elements(element, item, is_nested=True))
        else:
            encoded.append(None if element is None else item.encode(element))
    return encoded


def _array_placeholder(item: ColumnType) -> list[Any] | None:
    """Return what Debezium has for arrays: texts, numbers that are its bytes, or an UUID."""
    data = PLACEHOLDER.encode()
    if item.field.logical == _DATA + "Uuid":
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        # Java's UUID.nameUUIDFromBytes.
        digest[6] = digest[6] & 0x0F | 0x30
        digest[8] = digest[8] & 0x3F | 0x80
        return [str(uuid.UUID(bytes=bytes(digest)))]
    if item.field.type == "string":
        return [PLACEHOLDER]
    if item.field.type.startswith("int"):
        return list(data)
    if item.field.type.startswith("float"):
        return [float(number) for number in data]
    return None


def _bits(length: int) -> ColumnType:
    if length == 1:
        return ColumnType(Field("", "boolean"), lambda text: text == "1", None)

    def encode(text: str) -> bytes:
        return int(text, 2).to_bytes((length + 7) // 8, "little")

    # A reader would not know it from bits that vary in length.
    field = Field("", "bytes", BITS, {"length": str(length), SOURCE_TYPE: "BIT"})
    return ColumnType(field, encode, PLACEHOLDER.encode())


def _bytea(text: str) -> bytes:
    # wal2json leaves out what says that it is hexadecimal.
    return bytes.fromhex(text.removeprefix("\\x"))


def _native(text: str) -> float:
    return float(text)


def _json_float(text: str) -> float | str:
    number = float(text)
    if math.isfinite(number):
        return number
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")


def _point(text: str) -> Mapping[str, Any]:
    match = _POINT.fullmatch(text)
    if match is None:
        raise ValueError("a point cannot be read")
    x, y = float(match[1]), float(match[2])
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ValueError("a point has a coordinate that is no number")
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}


_POINT_PARTS = (
    Field("x", "float64", is_optional=False),
    Field("y", "float64", is_optional=False),
    Field("wkb", "bytes"),
    Field("srid", "int32"),
)

_TYPES: Mapping[str, tuple[str, str | None, Callable[[str], Any]]] = {
    "smallint": ("int16", None, int),
    "integer": ("int32", None, int),
    "bigint": ("int64", None, int),
    "oid": ("int64", None, int),
    "boolean": ("boolean", None, _TRUE.__contains__),
    "bytea": ("bytes", None, _bytea),
    "json": ("string", _DATA + "Json", str),
    "jsonb": ("string", _DATA + "Json", str),
    "uuid": ("string", _DATA + "Uuid", str),
    "xml": ("string", _DATA + "Xml", str),
    "date": ("string", _TIME + "IsoDate", iso_date),
    "time without time zone": ("string", _TIME + "IsoTime", iso_time),
    "timestamp without time zone": ("string", _TIME + "IsoTimestamp", iso_timestamp),
    "time with time zone": ("string", _TIME + "ZonedTime", iso_zoned),
    "timestamp with time zone": ("string", _TIME + "ZonedTimestamp", iso_zoned),
    "interval": ("string", _TIME + "Interval", iso_interval),
    "point": ("struct", _DATA + "geometry.Point", _point),
}
