"""Cursors that the server keeps, closed whatever becomes of their session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

__all__ = ["closed_at_the_end"]

Row = TypeVar("Row")


@contextmanager
def closed_at_the_end(cursor: psycopg.ServerCursor[Row]) -> Iterator[psycopg.ServerCursor[Row]]:
    """Close a cursor, also if the server went away while it was read."""
    try:
        yield cursor
    finally:
        with suppress(psycopg.Error):
            cursor.close()
        # Of a session that was lost just now nothing is asked the second time.
        cursor.close()
