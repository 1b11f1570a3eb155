"""The libpq that psycopg has loaded, as addresses that the compiled core can call."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from psycopg import pq

from pgrepl.native import Connected

__all__ = ["connected"]


def connected(pgconn: pq.abc.PGconn, notices: list[tuple[str, str]]) -> Connected | None:
    """Return what reads the COPY of a connection; None where psycopg is not compiled either.

    ``notices`` is where a handler of notices puts them: reading stops while there are some.
    """
    functions = _functions()
    pointer = getattr(pgconn, "pgconn_ptr", None)
    if functions is None or pointer is None:
        return None
    get_copy_data, free_memory = functions
    return pointer, get_copy_data, free_memory, notices


@cache
def _functions() -> tuple[int, int] | None:
    if pq.__impl__ == "python":
        return None
    # The module of psycopg that is linked with libpq: names are found in it as it finds them.
    path = sys.modules[pq.PGconn.__module__].__file__
    try:
        library = ctypes.PyDLL(path)
        found = [_address(library[name]) for name in ("PQgetCopyData", "PQfreemem")]
    except (OSError, AttributeError):
        return None
    return found[0], found[1]


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
