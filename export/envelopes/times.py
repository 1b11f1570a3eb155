"""Times as PostgreSQL prints them, in ISO's form; years before 1 and the ends of time included."""

from __future__ import annotations

import re

__all__ = ["iso_date", "iso_interval", "iso_time", "iso_timestamp", "iso_zoned"]

_DATE = re.compile(r"(\d+)(-\d\d-\d\d)(?: ([^B]*?))?( BC)?")
_ZONE = re.compile(r"(.*?)([+-]\d\d)(?::(\d\d))?(?::(\d\d))?")
_LAST_YEAR = 9999
_INTERVAL_PART = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def _split(text: str) -> tuple[str, str] | None:
    """Return the day in ISO's form and what follows it; None: it is an end of time."""
    if text.endswith("infinity"):
        return None
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("a date cannot be read")
    digits, day, rest, era = match.groups()
    year = 1 - int(digits) if era else int(digits)
    shown = f"{year:05d}" if year < 0 else f"{year:04d}"
    return f"{'+' if year > _LAST_YEAR else ''}{shown}{day}", rest or ""


def iso_date(text: str) -> str:
    """Print a date.

    >>> iso_date("2024-02-29"), iso_date("0044-03-15 BC"), iso_date("-infinity")
    ('2024-02-29Z', '-0043-03-15Z', '-infinity')
    """
    found = _split(text)
    return text if found is None else f"{found[0]}Z"


def iso_time(text: str) -> str:
    """Print a time of day without its zone."""
    return f"{text}Z"


def iso_timestamp(text: str) -> str:
    """Print a timestamp without time zone.

    >>> iso_timestamp("2024-02-29 12:34:56.7"), iso_timestamp("infinity")
    ('2024-02-29T12:34:56.7Z', 'infinity')
    """
    found = _split(text)
    return text if found is None else f"{found[0]}T{found[1]}Z"


def iso_zoned(text: str) -> str:
    """Print what has a time zone, with or without a day.

    >>> iso_zoned("2024-02-29 12:34:56.7+00"), iso_zoned("07:04:56.5-03:30")
    ('2024-02-29T12:34:56.7Z', '07:04:56.5-03:30')
    """
    if text.endswith("infinity"):
        return text
    day = ""
    clock = text
    if " " in text:
        found = _split(text)
        if found is None:
            return text
        day, clock = f"{found[0]}T", found[1]
    match = _ZONE.fullmatch(clock)
    if match is None:
        raise ValueError("a time zone cannot be read")
    time, hours, minutes, seconds = match.groups()
    if hours in ("+00", "-00") and not minutes:
        return f"{day}{time}Z"
    return f"{day}{time}{hours}:{minutes or '00'}" + (f":{seconds}" if seconds else "")


def iso_interval(text: str) -> str:
    """Print an interval.

    >>> iso_interval("1 year 2 mons -3 days +04:05:06.5"), iso_interval("-00:00:01")
    ('P1Y2M-3DT4H5M6.5S', 'P0Y0M0DT0H0M-1S')
    """
    if text.endswith("infinity"):
        return text
    parts = {unit: int(number) for number, unit in _INTERVAL_PART.findall(text)}
    match = _CLOCK.search(text)
    rest = _CLOCK.sub("", _INTERVAL_PART.sub("", text))
    if rest.strip():
        raise ValueError("an interval cannot be read")
    sign, hours, minutes, seconds = match.groups() if match else ("", "0", "00", "00")
    minus = "-" if sign == "-" else ""
    whole, point, fraction = seconds.partition(".")
    clock = (f"{minus}{number}" if int(number) else "0" for number in map(_plain, (hours, minutes)))
    hour, minute = clock
    second = f"{_plain(whole)}{point}{fraction}"
    if minus and float(second):
        second = minus + second
    return (
        f"P{parts.get('year', 0)}Y{parts.get('mon', 0)}M{parts.get('day', 0)}D"
        f"T{hour}H{minute}M{second}S"
    )


def _plain(number: str) -> str:
    return str(int(number))
