"""Count transactions from source to spool: a number each, none missing, none twice."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator

import psycopg

from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until


@contextlib.contextmanager
def load(streaming: Streaming, pause_s: float = 0.001) -> Iterator[list[int]]:
    """Insert a number per transaction while the block runs; yields the numbers that committed."""
    done: list[int] = []
    stopping = threading.Event()

    def insert() -> None:
        number = streaming.source.value("select coalesce(max(id), 0) from t")
        while not stopping.is_set():
            try:
                with streaming.source.connect() as connection:
                    while not stopping.is_set():
                        number += 1
                        connection.execute("insert into t values (%s)", (number,))
                        done.append(number)
                        stopping.wait(pause_s)
            except psycopg.Error:
                # The server was killed under us. Whether the last number committed is not known;
                # the table will tell.
                time.sleep(0.05)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield done
    finally:
        stopping.set()
        thread.join()


def await_more(done: list[int], count: int) -> None:
    goal = len(done) + count
    wait_until(lambda: len(done) > goal)


def assert_exactly_once(streaming: Streaming) -> None:
    streaming.receive_once()
    expected = [str(row[0]) for row in streaming.source.rows("select id from t order by id")]
    counts = Counter(streaming.values("t"))
    assert [number for number, count in counts.items() if count > 1] == [], "duplicates"
    assert set(expected) - set(counts) == set(), "missing"
    assert sorted(counts, key=int) == expected
