"""A target that takes no writes: nothing is confirmed, and receiving goes on when it does again."""

from __future__ import annotations

import pytest

from tests.support.machine.small_disk import database_on_small_disk, filled
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once, load


def test_full_disk_confirms_nothing_and_passes_by_itself(make_cluster, stream_from, source):
    source.execute("create table t (id bigint primary key, note text)")
    with database_on_small_disk(make_cluster(), 64) as (target, place):
        streaming = stream_from(source, into=target)
        with load(streaming), streaming.start() as receiver, filled(place, 256 * 1024):
            # What does not compress fills the disk.
            source.execute(
                "insert into t select -g, (select string_agg(md5((g * 100 + n)::text), '')"
                " from generate_series(1, 100) n) from generate_series(1, 1000) g"
            )
            wait_until(lambda: "No space left on device; trying again" in receiver.text)
            wait_until(lambda: receiver.text.count("trying again") >= 3)
            # What came before it may still arrive, and is confirmed no earlier than it is kept.
            assert streaming.slot_lsn() <= streaming.origin_lsn()
            assert str(-1000) not in streaming.values("t")
        with streaming.start():
            wait_until(lambda: str(-1000) in streaming.values("t"))
        assert_exactly_once(streaming)


@pytest.mark.parametrize("how", ["setting", "standby"])
def test_read_only_target_confirms_nothing_and_passes_by_itself(
    make_cluster, make_database, stream_from, source, how
):
    source.execute("create table t (id bigint primary key, note text)")
    cluster = make_cluster()
    target = make_database(cluster, prefix="target")
    streaming = stream_from(source, into=target)

    def close():
        if how == "setting":
            cluster.configure({"default_transaction_read_only": "on"})
        else:
            (cluster.data / "standby.signal").touch()
        cluster.restart()

    def open_again():
        if how == "setting":
            cluster.configure({"default_transaction_read_only": "off"})
        else:
            (cluster.data / "standby.signal").unlink()
        cluster.restart()

    with load(streaming), streaming.start() as receiver:
        wait_until(lambda: streaming.values("t"))
        close()
        wait_until(lambda: "read-only" in receiver.text or "recovery" in receiver.text)
        stuck = streaming.slot_lsn()
        before = receiver.text.count("trying again")
        wait_until(lambda: receiver.text.count("trying again") >= before + 2)
        assert streaming.slot_lsn() == stuck
        open_again()
        seen = len(streaming.values("t"))
        wait_until(lambda: len(streaming.values("t")) > seen, timeout_s=60)
        assert receiver.terminate() == 0
    assert_exactly_once(streaming)
