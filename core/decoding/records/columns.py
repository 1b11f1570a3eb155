"""Values without a schema: what they mean is told by the type of the target's column.

For what Debezium sent, its own settings say how it printed some types; where neither says it, the
value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pgrepl.decoding.records.field_types import type_and_converter
from pgrepl.decoding.records.fitting import text_check
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.values import (
    NO_LENGTH,
    BadValue,
    Converter,
    array_text,
    bits_text,
    decimal_text,
    interval_refused,
    json_text,
    plain_text,
    point_text,
    raw_bytes,
    varying_bits_text,
)

__all__ = ["MODES", "HandlingModes", "column_converter"]

#: Debezium's settings that say how it prints values, with what it does by default first.
MODES: Mapping[str, tuple[str, ...]] = {
    "decimal.handling.mode": ("precise", "string", "double"),
    "interval.handling.mode": ("numeric", "string"),
    "time.precision.mode": (
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
    ),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
}

_TYPE = re.compile(r"([a-z ]+?)(?:\((\d+)(?:,(-?\d+))?\))?( with(?:out)? time zone)?(\[\])?")
_MILLISECOND_DIGITS = 3
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class HandlingModes:
    """How values were printed; ``is_plain``: not by Debezium, texts are PostgreSQL's own."""

    modes: Mapping[str, str]
    is_plain: bool = False

    def __getitem__(self, name: str) -> str:
        """Return a setting of Debezium's, or its default."""
        return self.modes.get(name, MODES[name][0])


def column_converter(kind: str, modes: HandlingModes) -> Converter:
    """Return what prints values for a column; its type is as ``format_type`` prints it."""
    match = _TYPE.fullmatch(kind)
    if match is None:
        return plain_text
    name, first, second, zone, is_array = match.groups()
    if is_array:
        item = column_converter(kind.removesuffix("[]"), modes)
        return lambda value: value if isinstance(value, str) else array_text(value, item)
    if zone == " with time zone":
        name += zone
    make = _BY_TYPE.get(name)
    if make is None or (modes.is_plain and name not in _NEVER_PLAIN):
        convert: Converter = plain_text
    else:
        convert = make(_Modifier(name, first, second), modes)
    numbers = (None if own is None else int(own) for own in (first, second))
    check = text_check(name, *numbers)
    if check is None:
        return convert

    def checked(value: object) -> str:
        check(text := convert(value))
        return text

    return checked


@dataclass(frozen=True, slots=True)
class _Modifier:
    """The name of a type, and the numbers after it."""

    name: str
    first: str | None
    second: str | None


def _json(_: _Modifier, __: HandlingModes) -> Converter:
    return lambda value: plain_text(value) if isinstance(value, str) else json_text(value)


def _numeric(kind: _Modifier, modes: HandlingModes) -> Converter:
    if kind.name == "money":
        return _decimal(2, modes)
    return _decimal(None if kind.first is None else int(kind.second or 0), modes)


def _date(_: _Modifier, __: HandlingModes) -> Converter:
    return _numeric_or_text(_of("io.debezium.time.Date", "int32"))


def _time(kind: _Modifier, modes: HandlingModes) -> Converter:
    digits = _MOST_DIGITS if kind.first is None else int(kind.first)
    return _numeric_or_text(_clock(kind.name, digits, modes))


def _zoned(_: _Modifier, __: HandlingModes) -> Converter:
    return _of("io.debezium.time.ZonedTimestamp", "string")


def _interval(_: _Modifier, __: HandlingModes) -> Converter:
    return lambda value: value if isinstance(value, str) else interval_refused(value)


def _bits(kind: _Modifier, _: HandlingModes) -> Converter:
    # Of a varbit only the most that it can have is known, not its length.
    if kind.name == "bit":
        length = int(kind.first or 1)
        return lambda value: bits_text(value, length)
    most = int(kind.first or NO_LENGTH)
    return lambda value: varying_bits_text(value, most)


def _of(logical: str, kind: str) -> Converter:
    return type_and_converter(Field("", kind, logical))[1]


def _numeric_or_text(numeric: Converter) -> Converter:
    iso = _of("io.debezium.time.IsoDate", "string")

    def convert(value: object) -> str:
        if isinstance(value, str):
            return iso(value) if "-" in value else value.removesuffix("Z")
        return numeric(value)

    return convert


def _clock(name: str, digits: int, modes: HandlingModes) -> Converter:
    """Return what prints a number as a time, in the unit that the column's digits lead to."""
    mode = modes["time.precision.mode"]
    if mode == "nanoseconds":
        unit = "Nano"
    elif mode == "connect" or (
        digits <= _MILLISECOND_DIGITS
        and (mode == "adaptive" or (mode == "adaptive_time_microseconds" and name != "time"))
    ):
        unit = ""
    else:
        unit = "Micro"
    kind = "Timestamp" if name == "timestamp" else "Time"
    return _of(f"io.debezium.time.{unit}{kind}", "int64")


def _decimal(scale: int | None, modes: HandlingModes) -> Converter:
    is_precise = modes["decimal.handling.mode"] == "precise"

    def convert(value: object) -> str:
        if isinstance(value, Mapping):
            return _of("io.debezium.data.VariableScaleDecimal", "struct")(value)
        if isinstance(value, str) and is_precise:
            if scale is None:
                raise BadValue(
                    "a decimal came without its scale, and the target's column has none:"
                    " send schemas, or set Debezium's decimal.handling.mode to string"
                )
            return decimal_text(value, scale)
        if isinstance(value, str | int | Decimal):
            return plain_text(value)
        raise BadValue("a number is none")

    return convert


def _bytea(_: _Modifier, modes: HandlingModes) -> Converter:
    mode = modes["binary.handling.mode"]

    def convert(value: object) -> str:
        if modes.is_plain and isinstance(value, str) and value.startswith("\\x"):
            return value
        if mode == "hex" and isinstance(value, str):
            return f"\\x{value}"
        if mode == "base64-url-safe" and isinstance(value, str):
            value = value.replace("-", "+").replace("_", "/")
            value += "=" * (-len(value) % 4)
        return "\\x" + raw_bytes(value).hex()

    return convert


_BY_TYPE: Mapping[str, Callable[[_Modifier, HandlingModes], Converter]] = {
    "json": _json,
    "jsonb": _json,
    "bytea": _bytea,
    "numeric": _numeric,
    "money": _numeric,
    "date": _date,
    "timestamp": _time,
    "time": _time,
    "timestamp with time zone": _zoned,
    "interval": _interval,
    "bit": _bits,
    "bit varying": _bits,
    "point": lambda _, __: point_text,
}
#: Have a form of their own in JSON whoever wrote it.
_NEVER_PLAIN = frozenset({"json", "jsonb", "bytea"})
