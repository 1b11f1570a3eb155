"""A field of one of Connect's types: the column for it, and what prints its values."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from decimal import Decimal

from pgrepl.decoding.records.fitting import (
    BadValue,
    check_decimal,
    check_float,
    check_integer,
    check_json,
    check_uuid,
)
from pgrepl.decoding.records.schema import INSTANTS, Field
from pgrepl.decoding.records.times import (
    INFINITY,
    clock_text,
    date_text,
    iso_text,
    time_text,
    timestamp_text,
)
from pgrepl.decoding.records.values import (
    BITS,
    MOST_BITS,
    NO_LENGTH,
    NUL,
    SOURCE_TYPE,
    Converter,
    array_text,
    bits_text,
    decimal_text,
    interval_refused,
    json_text,
    plain_text,
    point_text,
    raw_bytes,
    variable_decimal,
    varying_bits_text,
)

__all__ = ["type_and_converter"]

_DATA = "io.debezium.data."
_TIME = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."
#: The greatest precision, and the scales, that a numeric can be declared with.
_MOST_PRECISION = 1000
_BC = " BC"
_UUID_BYTES = 16


def _timestamp(per_us: int, of_us: int = 1) -> Converter:
    def convert(value: object) -> str:
        number = _integer(value)
        if number in INFINITY:
            return INFINITY[number]
        whole, rest = divmod(number * per_us, of_us)
        if rest:
            raise BadValue("a time has nanoseconds, PostgreSQL keeps microseconds")
        return timestamp_text(whole)

    return convert


def _instant(per_us: int, of_us: int = 1) -> Converter:
    convert = _timestamp(per_us, of_us)

    def zoned(value: object) -> str:
        text = convert(value)
        if "infinity" in text:
            return text
        return f"{text.removesuffix(_BC)}+00{_BC if text.endswith(_BC) else ''}"

    return zoned


def _time(per_us: int, of_us: int = 1) -> Converter:
    def convert(value: object) -> str:
        whole, rest = divmod(_integer(value) * per_us, of_us)
        if rest:
            raise BadValue("a time has nanoseconds, PostgreSQL keeps microseconds")
        return time_text(whole)

    return convert


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue("a number is none")
    return value


def _date(value: object) -> str:
    return date_text(_integer(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadValue("a text is none")
    if "\0" in value:
        raise BadValue(NUL)
    return value


def _iso(value: object) -> str:
    return iso_text(_text(value))


def _iso_date(value: object) -> str:
    return iso_text(_text(value).removesuffix("Z"))


def _bytea(value: object) -> str:
    return "\\x" + raw_bytes(value).hex()


def _boolean(value: object) -> str:
    if not isinstance(value, bool):
        raise BadValue("a boolean is none")
    return plain_text(value)


def _float(kind: str) -> Converter:
    def convert(value: object) -> str:
        if isinstance(value, str):
            if value not in ("NaN", "Infinity", "-Infinity"):
                raise BadValue("a number is none")
        elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise BadValue("a number is none")
        elif not isinstance(value, float) or math.isfinite(value):
            check_float(value, kind)
        return plain_text(value)

    return convert


def _int(kind: str) -> Converter:
    def convert(value: object) -> str:
        check_integer(number := _integer(value), kind)
        return str(number)

    return convert


def _uuid(value: object) -> str:
    if isinstance(value, bytes) and len(value) == _UUID_BYTES:
        # As Avro has it that is fixed.
        return str(uuid.UUID(bytes=value))
    check_uuid(text := _text(value))
    return text


def _json_document(value: object) -> str:
    check_json(text := _text(value))
    return text


def _clock(value: object) -> str:
    return clock_text(_text(value))


#: PostgreSQL's type and the text, by what a value means.
_LOGICAL: Mapping[str, tuple[str, Converter]] = {
    _DATA + "VariableScaleDecimal": ("numeric", variable_decimal),
    _CONNECT + "Date": ("date", _date),
    _CONNECT + "Time": ("time", _time(1000)),
    _CONNECT + "Timestamp": ("timestamp", _timestamp(1000)),
    _TIME + "Date": ("date", _date),
    _TIME + "IsoDate": ("date", _iso_date),
    _TIME + "Time": ("time", _time(1000)),
    _TIME + "MicroTime": ("time", _time(1)),
    _TIME + "NanoTime": ("time", _time(1, 1000)),
    _TIME + "IsoTime": ("time", lambda value: _clock(value).removesuffix("Z")),
    _TIME + "ZonedTime": ("timetz", _clock),
    _TIME + "Timestamp": ("timestamp", _timestamp(1000)),
    _TIME + "MicroTimestamp": ("timestamp", _timestamp(1)),
    _TIME + "NanoTimestamp": ("timestamp", _timestamp(1, 1000)),
    _TIME + "IsoTimestamp": ("timestamp", _iso_date),
    _TIME + "ZonedTimestamp": ("timestamptz", _iso),
    _TIME + "MicroDuration": ("interval", interval_refused),
    _TIME + "NanoDuration": ("interval", interval_refused),
    _TIME + "Interval": ("interval", _text),
    INSTANTS["ms"]: ("timestamptz", _instant(1000)),
    INSTANTS["us"]: ("timestamptz", _instant(1)),
    INSTANTS["ns"]: ("timestamptz", _instant(1, 1000)),
    _DATA + "Json": ("json", _json_document),
    _DATA + "Uuid": ("uuid", _uuid),
    _DATA + "Xml": ("xml", _text),
    _DATA + "geometry.Point": ("point", point_text),
}
_PLAIN: Mapping[str, tuple[str, Converter]] = {
    "int8": ("smallint", _int("smallint")),
    "int16": ("smallint", _int("smallint")),
    "int32": ("integer", _int("integer")),
    "int64": ("bigint", _int("bigint")),
    "float32": ("real", _float("real")),
    "float64": ("double precision", _float("double precision")),
    "boolean": ("boolean", _boolean),
    "string": ("text", _text),
    "bytes": ("bytea", _bytea),
    "map": ("json", json_text),
    "struct": ("json", json_text),
}


def _number(parameters: Mapping[str, str], name: str, default: str) -> int:
    """Return a number that a schema has; whatever else it says is never a part of a type."""
    try:
        return int(parameters.get(name) or default)
    except ValueError as exc:
        raise BadValue(f"its {name} is no number") from exc


def _decimal_column(field: Field) -> tuple[str, Converter]:
    scale = _number(field.parameters, "scale", "0")
    own = _number(field.parameters, "precision", "0")
    precision = _number(field.parameters, "connect.decimal.precision", str(own))
    if not 1 <= precision <= _MOST_PRECISION or abs(scale) > _MOST_PRECISION:
        return "numeric", lambda value: decimal_text(value, scale)

    def convert(value: object) -> str:
        check_decimal(text := decimal_text(value, scale), precision, scale)
        return text

    return f"numeric({precision},{scale})", convert


def _bits_column(field: Field) -> tuple[str, Converter]:
    length = _number(field.parameters, "length", "1")
    if length < 1:
        raise BadValue("its length is none that a string of bits can have")
    if MOST_BITS < length < NO_LENGTH:
        raise BadValue("a string of bits is longer than any of PostgreSQL's")
    if field.parameters.get(SOURCE_TYPE, "").upper() == "BIT" and length < NO_LENGTH:
        return f"bit({length})", lambda value: bits_text(value, length)
    # Of a varbit only the most that it can have is sent, in the form that a bit has.
    kind = "varbit" if length >= NO_LENGTH else f"varbit({length})"
    return kind, lambda value: varying_bits_text(value, length)


def type_and_converter(field: Field) -> tuple[str, Converter]:
    """Return the type of the column for a field, and what prints its values.

    Raises
    ------
    BadValue
        when there is none.

    """
    if field.logical == _CONNECT + "Decimal":
        return _decimal_column(field)
    if field.logical == BITS:
        return _bits_column(field)
    if field.type == "array" and field.parts:
        inner = field.parts[0]
        while inner.type == "array" and inner.parts:
            # PostgreSQL has one type for arrays of all dimensions.
            inner = inner.parts[0]
        kind, item = type_and_converter(inner)
        return f"{kind}[]", lambda value: array_text(value, item)
    if field.logical is not None and field.logical in _LOGICAL:
        return _LOGICAL[field.logical]
    if field.logical is not None and field.type == "struct":
        raise BadValue(f'there is no column for "{field.logical}"')
    return _PLAIN[field.type]
