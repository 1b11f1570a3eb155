"""A value of one of Connect's types, printed as PostgreSQL prints it.

What a mapping cannot carry exactly is refused, with the reason: a value is never guessed.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.times import (
    INFINITY,
    date_text,
    iso_text,
    time_text,
    timestamp_text,
)

__all__ = [
    "BITS",
    "INSTANTS",
    "NO_LENGTH",
    "SOURCE_TYPE",
    "UNFORESEEN",
    "BadValue",
    "Converter",
    "array_text",
    "bits_text",
    "decimal_text",
    "interval_refused",
    "json_text",
    "plain_text",
    "point_text",
    "raw_bytes",
    "type_and_converter",
    "varying_bits_text",
    "why_unreadable",
]

_DATA = "io.debezium.data."
_TIME = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."
#: The length of a varbit without a limit.
NO_LENGTH = 2**31 - 1
#: Names of ours for a point in time as a number since 1970, by the unit: Connect has none.
INSTANTS = {unit: f"pgrepl.Instant.{unit}" for unit in ("ms", "us", "ns")}
#: A numeric has no more digits, and a string of bits no more bits.
_MOST_DIGITS = 131_072 + 16_383
_DIGIT_BITS = 3.3220
_MOST_BITS = 83_886_080
_BC = " BC"
_NUL = "a text has the character NUL, which PostgreSQL does not store"


class BadValue(ValueError):
    """A value that no text of the column's type is exactly."""


#: What code raises that meets a shape which nobody foresaw: that record is parked, and no more.
UNFORESEEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def why_unreadable(exc: BaseException) -> str:
    """Return why a record cannot be read; what others raise may quote a value."""
    if isinstance(exc, BadValue):
        return str(exc)
    return f"this version of pgrepl does not know its shape ({type(exc).__name__})"


#: Returns PostgreSQL's text of a value that is not null.
Converter = Callable[[Any], str]


def plain_text(value: object) -> str:
    """Print a value whose own text is PostgreSQL's: a text, a number, true or false."""
    if isinstance(value, str):
        if "\0" in value:
            raise BadValue(_NUL)
        return value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text := repr(value), text)
    if isinstance(value, Mapping | list):
        return json_text(value)
    raise BadValue(f"a value of type {type(value).__name__} has no text")


def raw_bytes(value: object) -> bytes:
    """Return bytes, which JSON has as base64."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as exc:
            raise BadValue("bytes are not in base64") from exc
    raise BadValue("a value is not bytes")


def decimal_text(value: object, scale: int) -> str:
    """Print the unscaled number of a decimal."""
    if isinstance(value, Decimal):
        return str(value)
    unscaled = int.from_bytes(raw_bytes(value), "big", signed=True)
    if abs(scale) > _MOST_DIGITS or unscaled.bit_length() > _MOST_DIGITS * _DIGIT_BITS:
        raise BadValue("a decimal has more digits than any number of PostgreSQL's")
    # Unlike an integer a decimal prints any number of digits.
    digits = str(Decimal(abs(unscaled))).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    if scale <= 0:
        return f"{sign}{digits}{'0' * -scale}"
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def variable_decimal(value: object) -> str:
    """Print a decimal that brings its scale."""
    if not isinstance(value, Mapping) or not isinstance(value.get("scale"), int):
        raise BadValue("a decimal has no scale")
    return decimal_text(value.get("value"), value["scale"])


def json_text(value: object) -> str:
    """Print JSON; numbers keep their digits, which json.dumps would not let them."""
    for kind, show in _JSON:
        if isinstance(value, kind):
            return show(value)
    raise BadValue(f"a value of type {type(value).__name__} has no text")


def _json_float(value: float) -> str:
    if not math.isfinite(value):
        raise BadValue("JSON has no NaN and no Infinity")
    return repr(value)


def _json_object(value: Mapping[object, object]) -> str:
    items = (f"{json_text(str(key))}: {json_text(item)}" for key, item in value.items())
    return "{" + ", ".join(items) + "}"


#: What prints values of a kind; a boolean is an integer too, and a text a sequence.
_JSON: Sequence[tuple[type, Converter]] = (
    (type(None), lambda _: "null"),
    (bool, lambda value: "true" if value else "false"),
    (str, lambda value: json.dumps(plain_text(value), ensure_ascii=False)),
    (int, str),
    (Decimal, str),
    (float, _json_float),
    (bytes, lambda value: json.dumps(base64.b64encode(value).decode())),
    (Mapping, _json_object),
    (Sequence, lambda value: "[" + ", ".join(map(json_text, value)) + "]"),
)


_NO_ZEROS = (
    "whether it is bit or bit varying is not sent, nor its length, so that its zeros are unknown."
    " Make the column of type bit where the source's is, or have Debezium send its type"
    " (datatype.propagate.source.type)"
)
#: Bits, as Debezium sends them.
BITS = "io.debezium.data.Bits"
#: What Debezium calls a column's type on the source, where it is told to send it.
SOURCE_TYPE = "__debezium.source.column.type"


def bits_text(value: object, length: int) -> str:
    """Print a string of bits, which comes as bytes, the least significant first."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if length >= NO_LENGTH:
        raise BadValue(_NO_ZEROS)
    if length > _MOST_BITS:
        raise BadValue("a string of bits is longer than any of PostgreSQL's")
    return f"{_bits_number(value):0{length}b}"


def varying_bits_text(value: object, most: int) -> str:
    """Print a string of at most ``most`` bits: whether zeros lead it is known of the longest."""
    if isinstance(value, bool):
        return "1" if value else "0"
    number = _bits_number(value)
    if number.bit_length() != most:
        raise BadValue(_NO_ZEROS)
    return f"{number:b}"


def _bits_number(value: object) -> int:
    return int.from_bytes(raw_bytes(value), "little")


def point_text(value: object) -> str:
    """Print a point."""
    if not isinstance(value, Mapping):
        raise BadValue("a point has no coordinates")
    return f"({plain_text(value.get('x'))},{plain_text(value.get('y'))})"


def interval_refused(_: object) -> str:
    """Refuse an interval that is a number: a month has no number of microseconds."""
    raise BadValue(
        "an interval came as microseconds, which lose its months and days:"
        " set Debezium's interval.handling.mode to string"
    )


def array_text(value: object, item: Converter) -> str:
    """Print an array."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadValue("an array is none")
    return "{" + ",".join(_element(element, item) for element in value) + "}"


def _element(value: object, item: Converter) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value, item)
    text = item(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


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
        raise BadValue(_NUL)
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


def _float(value: object) -> str:
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        raise BadValue("a number is none")
    return plain_text(value)


def _int_text(value: object) -> str:
    return str(_integer(value))


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
    _TIME + "IsoTime": ("time", lambda value: _text(value).removesuffix("Z")),
    _TIME + "ZonedTime": ("timetz", _text),
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
    _DATA + "Json": ("json", _text),
    _DATA + "Uuid": ("uuid", _text),
    _DATA + "Xml": ("xml", _text),
    _DATA + "geometry.Point": ("point", point_text),
}
_PLAIN: Mapping[str, tuple[str, Converter]] = {
    "int8": ("smallint", _int_text),
    "int16": ("smallint", _int_text),
    "int32": ("integer", _int_text),
    "int64": ("bigint", _int_text),
    "float32": ("real", _float),
    "float64": ("double precision", _float),
    "boolean": ("boolean", _boolean),
    "string": ("text", _text),
    "bytes": ("bytea", _bytea),
    "map": ("json", json_text),
    "struct": ("json", json_text),
}


def type_and_converter(field: Field) -> tuple[str, Converter]:
    """Return the type of the column for a field, and what prints its values.

    Raises
    ------
    BadValue
        when there is none.

    """
    parameters = field.parameters
    if field.logical == _CONNECT + "Decimal":
        scale = int(parameters.get("scale", "0"))
        precision = parameters.get("connect.decimal.precision") or parameters.get("precision")
        kind = f"numeric({precision},{scale})" if precision else "numeric"
        return kind, lambda value: decimal_text(value, scale)
    if field.logical == BITS:
        length = int(parameters.get("length", "1"))
        if parameters.get(SOURCE_TYPE, "").upper() == "BIT":
            return f"bit({length})", lambda value: bits_text(value, length)
        # Of a varbit only the most that it can have is sent, in the form that a bit has.
        kind = "varbit" if length >= NO_LENGTH else f"varbit({length})"
        return kind, lambda value: varying_bits_text(value, length)
    if field.type == "array" and field.parts:
        kind, item = type_and_converter(field.parts[0])
        return f"{kind}[]", lambda value: array_text(value, item)
    if field.logical is not None and field.logical in _LOGICAL:
        return _LOGICAL[field.logical]
    if field.logical is not None and field.type == "struct":
        raise BadValue(f'there is no column for "{field.logical}"')
    return _PLAIN[field.type]
