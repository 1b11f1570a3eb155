"""A reader that asks a database the same question again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.database import Database


@contextmanager
def polling(database: Database, query: str) -> Iterator[list[Any]]:
    """Poll until the block ends; yields what was seen, at least once."""
    seen: list[Any] = []
    is_over = threading.Event()

    def poll() -> None:
        with database.connect() as connection:
            while not is_over.is_set() or not seen:
                ((value,),) = connection.execute(query.encode()).fetchall()
                seen.append(value)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
