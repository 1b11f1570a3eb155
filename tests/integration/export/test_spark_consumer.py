"""The consumer of a stream of Spark's, without Spark: one stream at a time holds it."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from pgrepl.errors import AlreadyRunning, SpoolError, UsageError
from pgrepl.export.spark import consumer as module
from pgrepl.export.spark.consumer import HeldConsumer
from pgrepl.export.spark.segments import SpoolReading
from tests.support.running.backlog import die_at


@pytest.fixture
def held_of(live_of, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    live = live_of("pgoutput", "create table orders (id int primary key)")
    live.follow()
    reading = SpoolReading(
        live.config.target.endpoint, "shop", live.row.source_id, ("app.*",), 1000
    )
    made = []

    def make():
        made.append(HeldConsumer(reading, "spark", timedelta(days=1)))
        return made[-1]

    yield make
    for held in made:
        held.close()


def test_second_stream_of_a_consumer_is_refused_until_the_first_ends(held_of):
    first, second = held_of(), held_of()
    begin = first.begin()
    with pytest.raises(AlreadyRunning, match='as consumer "spark" runs already'):
        second.begin()
    with pytest.raises(AlreadyRunning), second.session(begin):
        pass
    # The first is not disturbed, nor is its place.
    first.move(begin)
    first.close()
    with second.session(begin):
        pass
    second.move(begin)
    # What has moved goes on by its checkpoint alone.
    second.close()
    with pytest.raises(UsageError, match="is that of another checkpoint"):
        first.begin()
    with pytest.raises(SpoolError, match="checkpoint is of another consumer"):
        first.move({**begin, "consumer": "00000000-0000-0000-0000-000000000000"})


def test_tasks_get_no_session_of_the_stream(held_of):
    first = held_of()
    begin = first.begin()
    copy = pickle.loads(pickle.dumps(first))
    with pytest.raises(AlreadyRunning), copy.session(begin):
        pass
    copy.close()
    first.move(begin)


def test_stream_that_dies_before_its_checkpoint_is_written_begins_there_again(held_of):
    die_at("export.stream_begun", lambda: held_of().begin())
    held = held_of()
    held.move(held.begin())
