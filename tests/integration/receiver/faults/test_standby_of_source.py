"""A standby of the source takes its place: received on where it has kept the slot.

That is from PostgreSQL 17 on; before, the same tests show that it is refused, and with which words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from psycopg.conninfo import make_conninfo

from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from tests.support.database import Database
from tests.support.machine.kept_sessions import hang_up
from tests.support.machine.proxy import Proxy
from tests.support.machine.standby import Standby, wait_synced
from tests.support.running.pulling import pulling
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once


@dataclass
class Pair:
    source: Database
    standby: Standby
    stack: ExitStack

    @property
    def promoted(self) -> Database:
        return Database(self.standby, self.source.name)

    def fail_over(self) -> None:
        """Lose the primary."""
        hang_up(self.source.cluster)
        self.source.cluster.stop("immediate")


@pytest.fixture
def pair(binaries) -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster(binaries=binaries, settings=LOGICAL_DECODING))
        source = Database(primary, "shop")
        source.create()
        source.execute(
            "create table t (id bigint generated always as identity primary key)",
            "create table synced (id bigint generated always as identity primary key)",
        )
        standby = stack.enter_context(Standby(primary))
        stack.callback(hang_up, standby)
        yield Pair(source, standby, stack)


def both(pair: Pair) -> str:
    """Return a conninfo that finds whichever server is the primary."""
    clusters = (pair.source.cluster, pair.standby)
    return make_conninfo(
        pair.source.dsn(),
        host=",".join(str(cluster.socket_dir) for cluster in clusters),
        port=",".join(str(cluster.port) for cluster in clusters),
        target_session_attrs="read-write",
    )


def moving(pair: Pair) -> tuple[Proxy, str]:
    """Return a name that moves, and a conninfo of it."""
    proxy = pair.stack.enter_context(Proxy(pair.source))
    return proxy, proxy.dsn


def is_received(streaming: Streaming) -> bool:
    """Whether each row is in the spool, once."""
    numbers = [
        int(column["value"])
        for table, columns in streaming.messages("table_name, columns")
        if table == "t"
        for column in columns
    ]
    rows = streaming.source.rows("select id from t order by id")
    return sorted(numbers) == [number for (number,) in rows]


@pytest.mark.parametrize(
    ("plugin", "is_moving"), [("wal2json", True), ("pgoutput", False)], ids=["name", "hosts"]
)
def test_receiver_goes_on_with_a_standby_that_is_promoted(
    pair, stream_from: Callable[..., Streaming], plugin, is_moving
):
    proxy, dsn = moving(pair) if is_moving else (None, both(pair))
    streaming = stream_from(pair.source, plugin=plugin, dsn=dsn)
    with streaming.start() as receiver:
        receiver.wait_streaming()
        if pair.standby.keeps_slots:
            wait_synced(pair.standby, pair.source, streaming.slot)
        pair.source.execute("insert into t select from generate_series(1, 10)")
        wait_until(lambda: is_received(streaming))
        pair.fail_over()
        if proxy is not None:
            # Before it is the primary.
            proxy.cut()
            proxy.lead_to(pair.promoted)
        wait_until(lambda: "is a standby" in receiver.text or "read-only" in receiver.text)
        pair.standby.promote()
        streaming.source = pair.promoted
        if not pair.standby.keeps_slots:
            assert receiver.process.wait(60) == 20
            assert "does not exist any more" in receiver.text
            assert "pgrepl basebackup shop --restart" in receiver.text
            return
        streaming.source.execute("insert into t default values")
        wait_until(lambda: receiver.process.poll() is not None or is_received(streaming))
        assert "failed over to timeline 2" in receiver.text
        assert receiver.terminate() == 0
    assert is_received(streaming)


def test_backlog_that_the_standby_has_not_is_not_received(pair, stream_from):
    """So that all that was received is there after a failover."""
    streaming = stream_from(pair.source)
    # Once with the standby: now the slot is one that waits for it.
    streaming.receive_once()
    pair.standby.stop()
    pair.source.execute("insert into t select from generate_series(1, 500)")
    with pulling(streaming):
        if pair.standby.keeps_slots:
            waiting = "select from pg_stat_activity where wait_event = 'WaitForStandbyConfirmation'"
            wait_until(lambda: pair.source.rows(waiting))
            assert streaming.values("t") == []
            pair.standby.start()
        wait_until(lambda: len(streaming.values("t")) == 500)
    assert_exactly_once(streaming)
