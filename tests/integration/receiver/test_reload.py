"""A receiver follows its configuration: when the file changes, and at SIGHUP."""

from __future__ import annotations

import signal

import pytest

from tests.support.waiting import wait_until


@pytest.fixture
def two_tables(source, stream_from):
    source.execute("create table a (id int primary key)", "create table b (id int primary key)")
    return stream_from(source, exclude=["public.b"])


def test_changed_file_is_taken_up_and_a_mistake_in_it_is_not(two_tables):
    with two_tables.start() as receiver:
        receiver.wait_streaming()
        receiver.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "nothing changed" in receiver.text)
        two_tables.write_config(exclude=["public.a"])
        wait_until(lambda: "going on with the changed configuration" in receiver.text)
        wait_until(lambda: receiver.text.count(" streaming ") == 2)
        two_tables.source.execute("insert into a values (1)", "insert into b values (2)")
        wait_until(lambda: two_tables.values("b") == ["2"])
        assert two_tables.values("a") == []
        two_tables.write_config(exclude=7)
        wait_until(lambda: "configuration not read again" in receiver.text)
        two_tables.source.execute("insert into b values (3)")
        wait_until(lambda: two_tables.values("b") == ["2", "3"])
        assert receiver.terminate() == 0
    assert "error:" not in receiver.text
