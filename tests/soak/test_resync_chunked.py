"""Tables copied in chunks, under writers that do whatever they can, and killed on the way.

How many seeds: ``PGREPL_SOAK_SEEDS``, 20 unless given.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import AbstractContextManager

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.resync.cancel import cancel_tables
from tests.support.running.live import Live
from tests.support.workloads.live_writers import FILL, SPOIL, TABLE, live_writers

SEEDS = int(os.environ.get("PGREPL_SOAK_SEEDS", "20"))
PLACES = ("chunks_begun", "chunk_read", "before_chunk_commit", "chunk_placed", "before_chunks_end")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_copy_and_stream_together_are_the_source(source, target, tmp_path, monkeypatch, seed):
    dice = random.Random(seed)
    rows = dice.choice((5, 15, 60))
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", rows)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: rows)
    plugin = ("wal2json", "pgoutput")[seed % 2]
    live = Live(source, target, tmp_path, plugin, dice.choice(("shard", "batch"))).begin(TABLE)
    source.execute(FILL)
    live.follow()
    if dice.random() < 0.5:
        target.execute(*SPOIL)

    def write() -> AbstractContextManager[None]:
        return live_writers(source, seed)

    for _ in range(dice.randrange(6)):
        place = f"resync.{dice.choice(PLACES)}:kill:{dice.randrange(1, 9)}"
        if not live.resync_until_killed("t", place, write):
            break
    with live.streaming(), live_writers(source, seed + 1):
        live.resync("t")
    assert live.differences("t") == set()
    assert target.value("select count(*) from replication.resync_key") == 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_table_that_joins_and_stream_together_are_the_source(
    source, target, tmp_path, monkeypatch, seed
):
    dice = random.Random(seed)
    rows = dice.choice((5, 15, 60))
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", rows)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: rows)
    plugin = ("wal2json", "pgoutput")[seed % 2]
    live = Live(source, target, tmp_path, plugin, dice.choice(("shard", "batch")))
    live.begin("create table other (id int primary key)")
    source.execute(f"set search_path = app; {TABLE}", FILL)
    live.follow()
    first = {"is_first": True}

    def write() -> AbstractContextManager[None]:
        return live_writers(source, seed)

    is_left = True
    for _ in range(dice.randrange(6)):
        place = f"resync.{dice.choice(PLACES)}:kill:{dice.randrange(1, 9)}"
        is_left = live.resync_until_killed("t", place, write, request=first)
        assert is_left != target.value("select to_regclass('app_copy.t') is not null")
        if not is_left:
            break
    with live.streaming(), live_writers(source, seed + 1):
        live.resync("t", request={"is_first": is_left})
    assert live.differences("t") == set()
    assert target.value("select count(*) from replication.resync_key") == 0


class StoppedError(Exception):
    """A resync goes no further."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_table_whose_resync_is_cancelled_is_the_source_or_marked(
    source, target, tmp_path, monkeypatch, seed
):
    dice = random.Random(seed)
    rows = dice.choice((5, 15, 30))
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", rows)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: rows)
    plugin = ("wal2json", "pgoutput")[seed % 2]
    live = Live(source, target, tmp_path, plugin, dice.choice(("shard", "batch"))).begin(TABLE)
    source.execute(FILL)
    live.follow()
    left = dice.randrange(1, 12)

    def pause(seconds: float) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise StoppedError
        time.sleep(seconds)

    config = live.config
    with live.streaming():
        with live_writers(source, seed), pytest.raises(StoppedError):
            live.resync("t", pause=pause)
        # A change that comes later may be of a row that is missing, and would be parked.
        live.follow()
        cancel_tables(config, config.source("shop"), TableSelection.of(["app.t"]), 60)
    marked = target.value("select resync_reason from replication.source_table")
    assert marked == "its resync was cancelled" or live.differences("t") == set()
