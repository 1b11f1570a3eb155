"""Values as PostgreSQL prints them, whatever type says that they are such.

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

from pgrepl.decoding.records.fitting import BadValue

__all__ = [
    "BITS",
    "MOST_BITS",
    "NO_LENGTH",
    "NUL",
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
    "variable_decimal",
    "varying_bits_text",
    "why_unreadable",
]

#: The length of a varbit without a limit.
NO_LENGTH = 2**31 - 1
#: A numeric has no more digits, and a string of bits no more bits.
_MOST_DIGITS = 131_072 + 16_383
_DIGIT_BITS = 3.3220
MOST_BITS = 83_886_080
NUL = "a text has the character NUL, which PostgreSQL does not store"


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
            raise BadValue(NUL)
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
    if length > MOST_BITS:
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
    """Print an array; those in it are its further dimensions, and of one size."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadValue("an array is none")
    if any(isinstance(element, list) for element in value):
        if not all(isinstance(element, list) for element in value) or not _is_even(value):
            raise BadValue("the arrays in an array are not of one size")
        return "{" + ",".join(array_text(element, item) for element in value) + "}"
    return "{" + ",".join(_element(element, item) for element in value) + "}"


def _is_even(arrays: Sequence[Any]) -> bool:
    """Whether arrays have the same dimensions, none of which is empty."""
    shapes = {_shape(own) for own in arrays}
    return len(shapes) == 1 and 0 not in shapes.pop()


def _shape(array: Sequence[Any]) -> tuple[int, ...]:
    inner = _shape(array[0]) if array and isinstance(array[0], list) else ()
    return len(array), *inner


def _element(value: object, item: Converter) -> str:
    if value is None:
        return "NULL"
    text = item(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
