"""Connections that break in every way, on both sides: nothing is missing, nothing comes twice."""

from __future__ import annotations

import pytest

from tests.support.machine.proxy import Proxy
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once, await_more, load

#: The source gives up on a receiver that it does not hear after this time.
HASTY = {"wal_sender_timeout": "2s"}


def received(streaming) -> int:
    query = "select coalesce(sum(change_count), 0)::bigint from replication.raw_messages"
    return int(streaming.target.value(query))


def await_received(streaming, count: int) -> None:
    goal = received(streaming) + count
    wait_until(lambda: received(streaming) > goal)


@pytest.mark.parametrize("way", ["cut", "reset"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_broken_connection_is_made_again(stream_alone, side, way):
    streaming = stream_alone(HASTY)
    with Proxy(getattr(streaming, side)) as proxy:
        if side == "source":
            streaming.write_config(dsn=proxy.dsn)
        else:
            streaming.target_dsn = proxy.dsn
            streaming.write_config()
        with load(streaming) as done, streaming.start() as receiver:
            for _ in range(3):
                await_received(streaming, 50)
                getattr(proxy, way)()
                await_more(done, 20)
            await_received(streaming, 50)
            assert receiver.text.count("trying again") >= 3
            assert receiver.terminate() == 0
        assert_exactly_once(streaming)


def test_source_that_falls_silent_is_given_up(stream_alone):
    # Half open: the receiver's connection is up, but nobody is at its other end any more.
    streaming = stream_alone(HASTY)
    with Proxy(streaming.source) as proxy:
        streaming.write_config(dsn=proxy.dsn)
        with load(streaming), streaming.start() as receiver:
            await_received(streaming, 50)
            proxy.freeze()
            wait_until(lambda: "has been silent for" in receiver.text, timeout_s=60)
            await_received(streaming, 50)
            assert receiver.terminate() == 0
        proxy.thaw()
        assert_exactly_once(streaming)


def test_target_that_falls_silent_confirms_nothing_and_goes_on_where_it_stood(stream_alone):
    streaming = stream_alone(HASTY)
    with Proxy(streaming.target) as proxy:
        streaming.target_dsn = proxy.dsn
        streaming.write_config()
        with load(streaming) as done, streaming.start() as receiver:
            await_received(streaming, 50)
            proxy.freeze()
            # Whatever was on its way to the target has arrived there or never will.
            await_more(done, 200)
            confirmed = streaming.slot_lsn()
            assert confirmed <= streaming.origin_lsn()
            # Longer than the source waits for a receiver that says nothing.
            walsender = streaming.source.value(
                f"select active_pid from pg_replication_slots where slot_name = '{streaming.slot}'"
            )
            await_more(done, 2000)
            assert streaming.slot_lsn() <= streaming.origin_lsn()
            assert walsender == streaming.source.value(
                f"select active_pid from pg_replication_slots where slot_name = '{streaming.slot}'"
            )
            proxy.thaw()
            await_received(streaming, 2000)
            assert "trying again" not in receiver.text
            assert receiver.terminate() == 0
        assert_exactly_once(streaming)


def test_source_that_does_not_answer_start_keeps_nobody_from_stopping(stream_alone):
    streaming = stream_alone(HASTY)
    with Proxy(streaming.source) as proxy:
        proxy.swallow(b"START_REPLICATION")
        streaming.write_config(dsn=proxy.dsn)
        with streaming.start() as receiver:
            assert proxy.has_swallowed.wait(120)
            assert receiver.terminate() == 0
