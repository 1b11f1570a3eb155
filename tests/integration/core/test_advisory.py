"""Locks by name."""

from __future__ import annotations

import pytest

from pgrepl.config.dsn import Side
from pgrepl.errors import AlreadyRunning
from pgrepl.postgres.advisory_locks import (
    find_holder,
    find_transactions,
    share_lock,
    take_lock,
    try_lock,
)
from pgrepl.postgres.connect import connect
from tests.support.waiting import wait_until


def test_holder_of_a_lock_is_found_by_its_name_until_it_goes(target):
    endpoint = target.endpoint(Side.TARGET)
    # Some of their keys are negative.
    names = [f"work {number}" for number in range(8)]
    with connect(endpoint, "test") as other:
        with connect(endpoint, "test") as holder:
            assert all(try_lock(holder, name) for name in names)
            pid = holder.info.backend_pid
            assert [find_holder(other, name) for name in names] == [pid] * len(names)
            assert not try_lock(other, names[0])
            with pytest.raises(AlreadyRunning, match="work 0 runs already") as caught:
                take_lock(other, names[0])
            # Another program may hold it.
            assert f"held by process {pid} (pgrepl-test, role " in str(caught.value.hint)
            assert find_holder(other, "other work") is None
        wait_until(lambda: find_holder(other, names[0]) is None)


def test_transactions_that_share_a_lock_are_found_while_they_last(target):
    with target.connect() as first, target.connect() as second, target.connect() as looker:
        with first.transaction():
            share_lock(first, "x")
            before = find_transactions(looker, "x")
            with second.transaction():
                share_lock(second, "x")
                assert len(find_transactions(looker, "x") - before) == 1
                assert find_transactions(looker, "y") == frozenset()
        assert find_transactions(looker, "x") == frozenset()
        with first.transaction():
            share_lock(first, "x")
            # The same session, but another transaction.
            assert before.isdisjoint(find_transactions(looker, "x"))
