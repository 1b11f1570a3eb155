"""Settings that are lists, read as PostgreSQL reads them."""

from __future__ import annotations

import re

__all__ = ["split_list"]

_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",]*?))\s*(?:,|$)')


def split_list(value: str) -> list[str]:
    """Split a list setting into its names.

    >>> split_list('pgoutput, "wal2json"')
    ['pgoutput', 'wal2json']
    >>> split_list('"pgoutput, wal2json"')
    ['pgoutput, wal2json']
    """
    names = []
    position = 0
    while position < len(value):
        match = _ITEM.match(value, position)
        if match is None:
            return []  # the server refuses such a value, so it cannot be a current setting
        quoted, plain = match.groups()
        names.append(quoted.replace('""', '"') if quoted is not None else plain)
        position = match.end()
    return [name for name in names if name]
