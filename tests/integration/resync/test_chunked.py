"""Tables copied again in chunks while the source writes and the target follows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from tests.support.database import Database
from tests.support.meanwhile import meanwhile
from tests.support.running.live import Live
from tests.support.workloads.live_writers import FILL, SPOIL, TABLE, live_writers


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 25)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 25)


@contextmanager
def reader(target: Database) -> Iterator[list[tuple[int, int]]]:
    """Read the copy all the time, and note whenever it is empty or has rows that never were."""
    noted: list[tuple[int, int]] = []
    query = "select count(*), count(*) filter (where tag <> md5(a || body)) from app_copy.t"

    def read(stop: threading.Event) -> None:
        with target.connect() as connection:
            while not stop.wait(0.02):
                ((count, wrong_count),) = connection.execute(query).fetchall()
                if not count or wrong_count:
                    noted.append((count, wrong_count))

    with meanwhile(read):
        yield noted


@pytest.mark.parametrize(
    ("options", "is_good"),
    [
        ({"plugin": "wal2json", "consistency": "shard"}, True),
        ({"plugin": "pgoutput", "consistency": "batch"}, False),
    ],
)
def test_copy_and_stream_together_are_the_source(source, target, tmp_path, options, is_good):
    live = Live(source, target, tmp_path, **options).begin(TABLE)
    source.execute(FILL)
    live.follow()
    if not is_good:
        target.execute(*SPOIL)
    with reader(target) as noted, live.streaming(), live_writers(source, 1):
        live.resync("t")
    assert live.differences("t") == set()
    # What an update makes of a row that was wrong is wrong until it is copied.
    assert not is_good or noted == []
    assert target.value("select count(*) from replication.resync") == 0


def test_each_chunk_reads_its_own_range_of_the_copy(source, target, tmp_path, monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 500)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 500)
    live = Live(source, target, tmp_path).begin("create table t (id int primary key, body text)")
    source.execute("insert into app.t select g, repeat('b', 200) from generate_series(1, 10000) g")
    live.follow()
    target.execute("vacuum analyze app_copy.t")
    before = read_count(target)
    with live.streaming():
        live.resync("t")
    assert live.differences("t") == set()
    # Once for each of its statements, and not the more often the more chunks there are.
    assert read_count(target) - before < 6 * 10_000


def read_count(target: Database) -> int:
    """Return how many rows of the copy sessions have read that are closed by now."""
    count: int = target.value(
        "select seq_tup_read + pg_stat_get_tuples_returned(i.indexrelid)"
        " from pg_stat_user_tables t join pg_index i on i.indrelid = t.relid"
        " where t.schemaname = 'app_copy' and t.relname = 't'"
    )
    return count


def test_chunk_of_long_rows_ends_after_some_bytes(source, target, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("pgrepl.resync.chunked.pacing._MOST_BYTES", 100_000)
    live = Live(source, target, tmp_path).begin(
        "create table t (id int primary key, body text)",
        # It is read as text.
        "create type mood as enum ('good'); create table e (id int primary key, m mood, body text)",
    )
    for table in ("t", "e"):
        # Long ones come after short ones, so that nothing told of them.
        source.execute(
            f"insert into app.{table} (id, body)"
            " select g, repeat('b', case when g > 200 then 20000 else 10 end)"
            " from generate_series(1, 300) g"
        )
    live.follow()
    for table in ("t", "e"):
        target.execute(f"update app_copy.{table} set body = 'x'")
        read = [0]

        def pause(seconds: float, read: list[int] = read) -> None:
            rows = target.rows("select byte_count from replication.resync")
            read.extend(count for (count,) in rows)
            threading.Event().wait(seconds)

        with live.streaming():
            live.resync(table, pause=pause)
        assert live.differences(table) == set()
        assert max(after - before for before, after in pairwise(sorted(read))) < 200_000
