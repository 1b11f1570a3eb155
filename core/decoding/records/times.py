"""Times that came as numbers or in ISO's form, as PostgreSQL's text; BC and infinity included.

PostgreSQL counts years before 1 as 1 BC, 2 BC …; ISO as 0000, -0001 ….
"""

from __future__ import annotations

import re
from datetime import date

__all__ = [
    "INFINITY",
    "clock_text",
    "date_text",
    "iso_text",
    "time_text",
    "timestamp_text",
]

#: What Debezium has for the ends of time, whatever the unit.
INFINITY = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}

_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()
#: What PostgreSQL's dates reach: 4713 BC and 5874897 AD.
_FIRST_DAY, _LAST_DAY = -2440588, 2145031948
_LAST_YEAR = 9999
#: The Gregorian calendar repeats itself.
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_ISO_YEAR = re.compile(r"([+-]?)(\d{4,7})-(\d\d)-(\d\d)(?:([T ])(.*))?", re.ASCII)
_CLOCK = re.compile(
    r"(?:[01]\d|2[0-3]|24(?=:00(?::00(?:\.0*)?)?(?:[^\d:.]|$))):[0-5]\d"
    r"(?::[0-5]\d(?:\.\d{1,6}0*)?)?(?:Z|[+-]\d\d(?::?[0-5]\d){0,2})?",
    re.ASCII,
)


def _day(days: int) -> tuple[str, str]:
    """Return a day since 1970 as text, and what stands at the end of a text with it."""
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise ValueError("a date lies outside of what PostgreSQL can have")
    cycles, rest = divmod(days + _EPOCH - 1, _CYCLE_DAYS)
    found = date.fromordinal(rest + 1)
    year = found.year + cycles * _CYCLE_YEARS
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04d}-{found.month:02d}-{found.day:02d}", era


def date_text(days: int) -> str:
    """Return a day since 1970.

    >>> date_text(19782), date_text(-735160)
    ('2024-02-29', '0044-03-15 BC')
    """
    return "".join(_day(days))


def time_text(microseconds: int) -> str:
    """Return a time of day.

    >>> time_text(86_400_000_000), time_text(1_500_000)
    ('24:00:00', '00:00:01.5')
    """
    if not 0 <= microseconds <= _DAY_US:
        raise ValueError("a time of day lies outside of the day")
    seconds, fraction = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def timestamp_text(microseconds: int) -> str:
    """Return a timestamp from microseconds since 1970.

    >>> timestamp_text(1709210096789000), timestamp_text(-63517824000000000)
    ('2024-02-29 12:34:56.789', '0044-03-15 00:00:00 BC')
    """
    days, rest = divmod(microseconds, _DAY_US)
    day, era = _day(days)
    return f"{day} {time_text(rest)}{era}"


def iso_text(text: str) -> str:
    """Return a date or timestamp in ISO's form as PostgreSQL takes it: with its own years.

    >>> iso_text("-0043-03-15T00:00:00.000000Z")
    '0044-03-15T00:00:00.000000Z BC'
    """
    if text in ("infinity", "-infinity"):
        return text
    match = _ISO_YEAR.fullmatch(text)
    if match is None:
        raise ValueError("a text is no date in ISO's form")
    sign, digits, month, day, mark, rest = match.groups()
    year = int(sign + digits)
    # The calendar repeats itself; Python's has only some of the years.
    date(year % _CYCLE_YEARS + _CYCLE_YEARS, int(month), int(day))
    clock = "" if mark is None else mark + clock_text(rest)
    if year > 0:
        return f"{year:04d}-{month}-{day}{clock}"
    return f"{1 - year:04d}-{month}-{day}{clock} BC"


def clock_text(text: str) -> str:
    """Return a time of day, with a zone or without one; what would be rounded is refused."""
    if _CLOCK.fullmatch(text) is None:
        raise ValueError("a text is no time of day in ISO's form, or has nanoseconds")
    return text
