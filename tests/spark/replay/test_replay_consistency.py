"""What a reader sees while money moves between two tables of different shards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.errors import TargetError
from pgrepl.replayer.shard.task import run_shard
from pgrepl.store.spool.spool_format import bucket_of
from tests.support.running.backlog import plan
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.streams.debezium_made import end, event
from tests.support.streams.kafka import Stream, Topics
from tests.support.workloads.polling import polling

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


def test_batch_never_shows_part_of_a_transaction(bank):
    pipeline, query = bank
    with polling(pipeline.target, query) as seen:
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


@pytest.mark.soak
def test_transactions_of_topics_are_seen_whole_across_topics_and_partitions(
    broker, target, tmp_path
):
    topics = Topics(broker)
    topic_of = {name: topics.make(f"public.{name}", partitions=3) for name in ("left", "right")}
    ends = topics.make("transaction")
    stream = Stream(
        target,
        tmp_path,
        kind="kafka",
        bootstrap=broker.bootstrap,
        topics=list(topic_of.values()),
        envelope="debezium",
        transaction_topic=ends,
    )
    stream.sections["replay"] = {"consistency": "batch", "shards": 2}
    stream.write_config()
    accounts = range(10)
    transfer(topics, topic_of, ends, dict.fromkeys(accounts, 0), xid=1)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    for name in topic_of:
        target.execute(f"create table feed_public.{name} (id int primary key, n int)")
    quick = replace(QUICK, batch_segments=1)
    stream.receive()
    stream.replay(quick)
    for xid in range(2, 8):
        transfer(topics, topic_of, ends, dict.fromkeys(accounts, 10 * xid), xid=xid)
        stream.receive()
    # Its end is not there: nothing of it is received.
    transfer(topics, topic_of, None, dict.fromkeys(accounts, 1), xid=8)
    stream.receive()
    total = "select sum(n) from (table feed_public.left union all table feed_public.right) t"
    with polling(target, total) as seen:
        result = stream.replay(quick)
    assert (result.error, result.batch_count) == (None, 6)
    assert len(seen) > 6
    assert set(seen) == {0}
    each = "select distinct n from feed_public.{}"
    assert [target.rows(each.format(name)) for name in topic_of] == [[(70,)], [(-70,)]]


def transfer(topics, topic_of, ends, amounts, *, xid):
    """Send a transaction that sets rows of two tables, whose sums are each other's negative."""
    last_commit, order = 1000 * xid, 0
    for name, sign in (("left", 1), ("right", -1)):
        for number, amount in amounts.items():
            order += 1
            place = {"xid": xid, "last_commit": last_commit, "lsn": last_commit + order}
            row = {"id": number, "n": sign * amount}
            op = "c" if xid == 1 else "u"
            own = event(op, table=name, after=row, order=order, **place)
            topics.send(topic_of[name], [({"id": number}, own)])
    if ends is not None:
        counts = dict.fromkeys(topic_of, len(amounts))
        topics.send(ends, [({"id": str(xid)}, end(xid, last_commit + 1000, counts))])
