"""Whether a value fits a type of PostgreSQL's: what does not is refused alone.

A value that the server refuses would park its whole table; a value that it would round is none that
the column has exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation

__all__ = [
    "BadValue",
    "Check",
    "check_decimal",
    "check_float",
    "check_integer",
    "check_json",
    "check_uuid",
    "text_check",
]


class BadValue(ValueError):
    """A value that no text of the column's type is exactly."""


#: Refuses a text that a column cannot have.
Check = Callable[[str], None]

_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
#: The greatest that is rounded to a finite number, and the smallest that is not rounded to zero.
_FLOAT_RANGES = {
    "real": (Decimal("3.4028235677973366e38"), Decimal("7.0064923216240854e-46")),
    "double precision": (
        Decimal("1.797693134862315807e308"),
        Decimal("2.4703282292062327208e-324"),
    ),
}
#: A numeric has no more digits before its point, and after it.
_MOST_BEFORE, _MOST_AFTER = 131_072, 16_383
_MOST_MONEY = Decimal("92233720368547758.07")
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*", re.ASCII)
_NOT_FINITE = frozenset({"nan", "infinity", "-infinity"})
_UUID = re.compile(r"\{?(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}\}?", re.ASCII | re.IGNORECASE)
_TRUTHS = frozenset(
    word[:length]
    for word in ("true", "false", "yes", "no", "1", "0")
    for length in range(1, 1 + len(word))
) | {"on", "off", "of"}


def check_integer(value: int, kind: str) -> None:
    """Refuse an integer that a type has not."""
    if not -(1 << _INTEGER_BITS[kind] - 1) <= value < 1 << _INTEGER_BITS[kind] - 1:
        raise BadValue(f"a number is out of the range of {kind}")


def check_float(value: float | Decimal, kind: str) -> None:
    """Refuse a number that is too great for a type, or so small that nothing of it is left."""
    most, least = _FLOAT_RANGES[kind]
    size = value if value >= 0 else -value
    if size > most or 0 < size < least:
        raise BadValue(f"a number is out of the range of {kind}")


def check_decimal(text: str, precision: int, scale: int) -> None:
    """Refuse a number with more digits than ``numeric(precision, scale)`` has."""
    value = _decimal(text)
    if value.is_nan():
        return
    if value.is_infinite() or (value and value.adjusted() >= precision - scale):
        raise BadValue(f"a number is out of the range of numeric({precision},{scale})")
    if _digits_after(value) > scale:
        raise BadValue(f"a number has more digits than numeric({precision},{scale})")


def _check_numeric(text: str) -> None:
    value = _decimal(text)
    if not value.is_finite() or not value:
        return
    if value.adjusted() >= _MOST_BEFORE or _digits_after(value) > _MOST_AFTER:
        raise BadValue("a number is out of the range of numeric")


def _check_money(text: str) -> None:
    # Others are in the form of a locale.
    with suppress(InvalidOperation):
        if not abs(Decimal(text)) <= _MOST_MONEY:
            raise BadValue("a number is out of the range of money")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as exc:
        raise BadValue("a number is none") from exc


def _digits_after(value: Decimal) -> int:
    """Return how many digits after the point are not zeros at the end."""
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    if not value or not isinstance(exponent, int):
        return 0
    zeros = next(n for n, digit in enumerate(reversed(digits)) if digit)
    return -(exponent + zeros)


def check_uuid(text: str) -> None:
    """Refuse what is no UUID."""
    if _UUID.fullmatch(text) is None:
        raise BadValue("a UUID is none")


def check_json(text: str) -> None:
    """Refuse what is no JSON."""
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError) as exc:
        raise BadValue("a text is no JSON") from exc


def _refuse(_: str) -> None:
    raise ValueError("not a number of JSON's")


_JSON = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)


def text_check(name: str, first: int | None, second: int | None) -> Check | None:
    """Return what refuses texts that are none of a type; None: only the server can tell.

    ``first`` and ``second`` are the numbers behind the type's name.
    """
    if name in _INTEGER_BITS:
        return lambda text: _check_integer_text(text, name)
    if name in _FLOAT_RANGES:
        return lambda text: _check_float_text(text, name)
    if name == "numeric":
        if first is None:
            return _check_numeric
        return lambda text: check_decimal(text, first, second or 0)
    if name in ("character varying", "character") and first is not None:
        return lambda text: _check_length(text, first)
    return _BY_NAME.get(name)


def _check_integer_text(text: str, kind: str) -> None:
    if _INTEGER.fullmatch(text) is None:
        raise BadValue("a number is none")
    check_integer(int(text), kind)


def _check_float_text(text: str, kind: str) -> None:
    if text.strip().lower() in _NOT_FINITE:
        return
    check_float(_decimal(text), kind)


def _check_length(text: str, most: int) -> None:
    # Blanks at the end are cut off, by SQL's rules.
    if len(text) > most and len(text.rstrip(" ")) > most:
        raise BadValue(f"a text has more than {most} characters")


def _check_boolean(text: str) -> None:
    if text.strip().lower() not in _TRUTHS:
        raise BadValue("a boolean is none")


_BY_NAME: Mapping[str, Check] = {
    "boolean": _check_boolean,
    "money": _check_money,
    "uuid": check_uuid,
    "json": check_json,
    "jsonb": check_json,
}
