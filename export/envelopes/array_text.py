"""Arrays as PostgreSQL prints them, taken apart."""

from __future__ import annotations

import re

__all__ = ["Elements", "read_array"]

Elements = list["str | Elements | None"]

_TOKEN = re.compile(r'\{|\}|,|"((?:[^"\\]|\\.)*)"|((?:[^",{}\\]|\\.)+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_array(text: str) -> Elements:
    r"""Return the elements of an array, nested where it has several dimensions.

    >>> read_array('{1,NULL,"a\\"b"}'), read_array("{{1,2},{3,4}}")
    (['1', None, 'a"b'], [['1', '2'], ['3', '4']])

    Raises
    ------
    ValueError
        when it is none, or does not begin at 1: no list would say so.

    """
    if not text.startswith("{"):
        raise ValueError("an array has bounds of its own")
    stack: list[Elements] = []
    done: Elements | None = None
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or done is not None:
            raise ValueError("an array cannot be read")
        at = match.end()
        found = match[0]
        if found == "{":
            own: Elements = []
            if stack:
                stack[-1].append(own)
            stack.append(own)
        elif found == "}":
            done = stack.pop()
            if stack:
                done = None
        elif found != ",":
            stack[-1].append(_element(match))
    if done is None:
        raise ValueError("an array cannot be read")
    return done


def _element(match: re.Match[str]) -> str | None:
    if match[1] is not None:
        return _ESCAPE.sub(r"\1", match[1])
    if match[2].upper() == "NULL":
        return None
    return _ESCAPE.sub(r"\1", match[2])
