"""Lengths of time as people write and read them, in PostgreSQL's units."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["parse_duration", "print_duration", "write_duration"]

_TEXT = re.compile(r"([0-9]{1,9})\s*(ms|s|min|h|d)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def parse_duration(text: str) -> timedelta:
    """Read a whole number and a unit: ms, s, min, h or d.

    >>> parse_duration("90s") == timedelta(minutes=1, seconds=30)
    True
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        message = f'"{text}" is not a duration such as "60s": a whole number and ms, s, min, h or d'
        raise ValueError(message)
    return int(match[1]) * _UNITS[match[2]]


def print_duration(seconds: float) -> str:
    """Return the two largest units that matter.

    >>> print_duration(0.25), print_duration(75), print_duration(93_784)
    ('0.2 s', '1 min 15 s', '1 d 2 h')
    """
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def write_duration(duration: timedelta) -> str:
    """Return what ``parse_duration`` reads as this duration, in the largest unit that fits.

    >>> write_duration(timedelta(days=30)), write_duration(timedelta(seconds=90))
    ('30d', '90s')
    """
    for unit, length in reversed(_UNITS.items()):
        if duration >= length and not duration % length:
            return f"{duration // length}{unit}"
    return "0s"
