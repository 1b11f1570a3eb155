"""The receiver refuses to go on over a gap, and says what to do."""

from __future__ import annotations

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import SourceError
from pgrepl.postgres.encodings import python_codec
from pgrepl.receiver import run
from pgrepl.receiver.postgres import source as postgres_source
from tests.support.waiting import wait_until
from tests.support.workloads.counting import load


@pytest.fixture
def received(streaming):
    """Return a source of which something was received."""
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    streaming.source.execute("insert into t values (2)")
    return streaming


def refuse(streaming, code, *texts):
    before = streaming.target.rows("select * from replication.receive_progress")
    done = streaming.receive_once(code=code)
    for text in (*texts, "hint: "):
        assert text in done.stderr
    assert streaming.target.rows("select * from replication.receive_progress") == before


def test_source_that_was_never_copied_is_refused(streaming):
    streaming.target.execute("delete from replication.source")
    refuse(streaming, 30, "was never copied", "pgrepl basebackup shop")


@pytest.mark.parametrize("state", ["creating", "copying"])
def test_source_that_is_not_copied_yet_is_refused(streaming, state):
    streaming.target.execute(f"update replication.source set state = '{state}'")
    refuse(streaming, 30, f'is in state "{state}"', "pgrepl basebackup shop")


def test_other_slot_in_the_configuration_is_refused(streaming):
    streaming.write_config(slot="another")
    refuse(streaming, 30, 'the configuration says "another"')


def test_slot_that_was_dropped_is_refused(received):
    received.source.execute(f"select pg_drop_replication_slot('{received.slot}')")
    refuse(received, 20, "does not exist any more", "pgrepl basebackup shop")


def test_slot_that_was_made_anew_is_refused(received):
    received.source.execute(
        f"select pg_drop_replication_slot('{received.slot}')",
        f"select pg_create_logical_replication_slot('{received.slot}', 'wal2json')",
    )
    refuse(received, 20, "was consumed up to", "pgrepl basebackup shop")


def test_slot_that_is_consumed_after_the_first_look_is_refused(received, monkeypatch):
    def consume_and_go_on(*arguments):
        received.source.execute(
            f"select pg_logical_slot_get_changes('{received.slot}', null, null)"
        )
        return python_codec(*arguments)

    monkeypatch.setattr(postgres_source, "python_codec", consume_and_go_on)
    config = load_config(received.config)
    with pytest.raises(SourceError, match="was consumed up to"):
        run.Receiver(config, config.source(received.name)).run(once=True)
    refuse(received, 20, "was consumed up to", "pgrepl basebackup shop")


def test_slot_of_another_plugin_is_refused(received):
    received.source.execute(
        f"select pg_drop_replication_slot('{received.slot}')",
        f"select pg_create_logical_replication_slot('{received.slot}', 'test_decoding')",
    )
    refuse(received, 20, 'belongs to plugin "test_decoding"')


def test_slot_that_somebody_else_consumed_is_refused(received):
    received.source.execute(
        f"select count(*) from pg_logical_slot_get_changes('{received.slot}', null, null)"
    )
    refuse(received, 20, "was consumed up to", "by another client")


def test_slot_that_lost_its_wal_ends_the_receiver(stream_alone):
    streaming = stream_alone({"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB"})
    source = streaming.source
    source.execute("create table filler (x text)")
    for _ in range(4):
        source.execute(
            "insert into filler select repeat('x', 1000) from generate_series(1, 10000)",
            "select pg_switch_wal()",
            "checkpoint",
        )
    assert streaming.source.value("select wal_status from pg_replication_slots") == "lost"
    refuse(streaming, 20, "is lost", "max_slot_wal_keep_size")


def test_slot_that_nobody_read_from_for_too_long_ends_the_receiver(stream_alone):
    """From PostgreSQL 18 on; older servers wait for ever."""
    streaming = stream_alone()
    setting = "from pg_settings where name = 'idle_replication_slot_timeout'"
    if not streaming.source.rows(f"select {setting}"):
        assert streaming.source.value("show server_version_num") < "180000"
        return
    streaming.source.execute(
        "alter system set idle_replication_slot_timeout = '1s'", "select pg_reload_conf()"
    )

    def is_lost() -> bool:
        streaming.source.execute("checkpoint")
        return bool(streaming.source.value("select invalidation_reason from pg_replication_slots"))

    wait_until(is_lost)
    refuse(streaming, 20, "is lost", "Raise idle_replication_slot_timeout")


def test_another_server_is_refused(received):
    received.target.execute("update replication.source set system_identifier = 1")
    refuse(received, 20, "is another server")


def test_another_timeline_is_refused(received):
    received.target.execute("update replication.source set timeline = 7")
    refuse(received, 20, "is on timeline 1, it was received on 7")


def test_source_restored_to_the_past_is_refused(received):
    received.target.execute(
        f"select pg_replication_origin_advance('{received.slot}', 'FF/0')",
        "update replication.receive_progress set received_lsn = 'FF/0'",
    )
    refuse(received, 20, "restored to the past")


def test_origin_that_somebody_moved_is_refused(received):
    received.target.execute(f"select pg_replication_origin_advance('{received.slot}', 'FF/0')")
    refuse(received, 40, "one of them was moved")


def test_origin_that_is_gone_is_refused(received):
    received.target.execute(f"select pg_replication_origin_drop('{received.slot}')")
    refuse(received, 30, "does not exist on the target")


def test_second_receiver_of_a_source_exits_75_and_touches_nothing(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        # --until-lsn does not even write its mark to the source.
        done = streaming.receive("--until-lsn", "F/0", code=75)
        assert "another receiver" in done.stderr
        assert "trying again" not in done.stderr
        streaming.source.execute("insert into t values (1)")
        wait_until(lambda: streaming.values("t") == ["1"])


def test_second_receiver_exits_75_beside_one_that_is_busy(streaming):
    with load(streaming), streaming.start() as receiver:
        receiver.wait_streaming()
        done = streaming.receive("--until-lsn", "F/0", code=75)
        assert "trying again" not in done.stderr


def test_second_receiver_takes_over_from_one_that_just_died(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        receiver.kill()
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    assert streaming.values("t") == ["1"]


def test_slot_that_is_dropped_under_the_receiver_ends_it(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        streaming.source.execute(
            "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots"
            f" where slot_name = '{streaming.slot}'",
            f"select pg_drop_replication_slot('{streaming.slot}')",
        )
        assert receiver.process.wait(120) == 20
        assert "does not exist any more" in receiver.text


def test_last_error_is_kept_for_status_until_it_streams_again(stream_from, source):
    source.execute("create table t (id int primary key)")
    streaming = stream_from(source)
    query = "select message from replication.failure where stage = 'receive'"
    streaming.write_config(slot=streaming.slot, dsn=source.dsn(user="nobody_of_this_name"))
    streaming.receive("--once", code=20)
    ((message,),) = streaming.target.rows(query)
    assert "nobody_of_this_name" in message
    streaming.write_config()
    streaming.receive_once()
    assert streaming.target.rows(query) == []
