"""What a reader sees while money moves between two tables of different shards."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pgrepl.replayer.shard.task import run_shard
from pgrepl.store.spool import bucket_of
from tests.support.backlog import plan
from tests.support.pipeline import QUICK, Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

MONEY = 1000


@pytest.fixture
def bank(source, target):
    """Return a spool of transfers between two tables that two shards own."""
    candidates = [f"t{number}" for number in range(100)]
    names = {bucket_of(source.name, "public", name) % 2: name for name in candidates}
    left, right = names[0], names[1]
    for name, amount in ((left, MONEY), (right, 0)):
        source.execute(
            f"create table {name} (id int primary key, amount int)",
            f"insert into {name} values (1, {amount})",
        )
    pipeline = Pipeline(source, target, {"shards": 2})
    pipeline.copy()
    for number in range(1, 9):
        source.execute(
            f"update {left} set amount = amount - {number};"
            f"update {right} set amount = amount + {number}"
        )
        pipeline.receive()
    schema = pipeline.schema()
    total = f"(select amount from {schema}.{left}) + (select amount from {schema}.{right})"
    return pipeline, f"select {total}"


@contextmanager
def reader(target, query):
    """Poll until the block ends; yields what was seen."""
    seen: list[int] = []
    is_over = threading.Event()

    def poll() -> None:
        with target.connect() as connection:
            while not is_over.is_set():
                ((total,),) = connection.execute(query.encode()).fetchall()
                seen.append(total)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def test_batch_never_shows_part_of_a_transaction(bank):
    pipeline, query = bank
    with reader(pipeline.target, query) as seen:
        result = pipeline.replay(replace(QUICK, batch_segments=1), consistency="batch")
    assert result.error is None
    assert result.batch_count == 8
    assert len(seen) > 8
    assert set(seen) == {MONEY}
    assert pipeline.differences() == []


def test_shard_can_show_part_of_a_transaction_and_does_not_promise_it(bank):
    pipeline, query = bank
    _, tasks = plan(pipeline)
    assert len(tasks) == 2
    run_shard(tasks[0])
    # The same query that must never be broken above.
    assert pipeline.target.value(query) != MONEY
    assert pipeline.target.rows("select from replication.progress") == []
    run_shard(tasks[1])
    assert pipeline.target.value(query) == MONEY
    pipeline.replay()
    assert pipeline.target.value("select count(*) from replication.progress") == 1
    assert pipeline.differences() == []


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_position_is_published_with_what_it_stands_for(bank, consistency):
    pipeline, _ = bank
    pipeline.replay(replace(QUICK, batch_segments=1), consistency=consistency)
    received = pipeline.target.value("select received_lsn::text from replication.receive_progress")
    published = pipeline.target.rows("select lsn::text from replication.progress order by at")
    assert len(published) >= 8
    assert published[-1][0] == received
