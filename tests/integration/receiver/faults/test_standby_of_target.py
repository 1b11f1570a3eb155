"""A target with a synchronous standby: what that may not have is not confirmed to the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.database import Database
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_commit_that_no_standby_has_is_not_confirmed(
    make_cluster, make_database, stream_from, source, end
):
    """Neither when a wait is cancelled, nor when the receiver finds it committed at its start."""
    target = make_database(make_cluster(), prefix="target")
    source.execute("create table t (id bigint generated always as identity primary key)")
    streaming = stream_from(source, into=target)
    with (
        streaming.start() as receiver,
        _without_standby(target, receiver.wait_streaming) as stack,
    ):

        def begin_to_wait() -> list[int]:
            # The server takes a moment to know of its setting.
            source.execute("insert into t default values")
            return _waiting(target)

        (first,) = wait_until(begin_to_wait)
        target.execute(f"select {end}({first})")
        wait_until(lambda: _waiting(target) not in ([], [first]))
        # It is committed here, and nowhere else: the next session waits before it streams.
        wait_until(lambda: not _is_active(source, streaming.slot))
        assert streaming.origin_lsn() > streaming.slot_lsn()
        stack.close()
        wait_until(lambda: streaming.slot_lsn() >= streaming.origin_lsn())
        assert receiver.terminate() == 0
    assert_exactly_once(streaming)


@contextmanager
def _without_standby(target: Database, begin: Callable[[], object]) -> Iterator[ExitStack]:
    """Let commits wait for a standby that does not exist, until the stack is closed."""
    begin()
    with ExitStack() as stack:
        stack.callback(_set_standbys, target, "default")
        _set_standbys(target, "'nobody'")
        yield stack


def _set_standbys(target: Database, names: str) -> None:
    target.execute(
        f"alter system set synchronous_standby_names = {names}", "select pg_reload_conf()"
    )


def _waiting(target: Database) -> list[int]:
    found = target.rows(
        "select pid from pg_stat_activity where wait_event = 'SyncRep'"
        " and application_name = 'pgrepl-receive'"
    )
    return [pid for (pid,) in found]


def _is_active(source: Database, slot: str) -> bool:
    return bool(source.value(f"select active from pg_replication_slots where slot_name = '{slot}'"))
