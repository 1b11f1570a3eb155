"""A backlog is pulled through SQL, the rest is streamed, and nobody can tell from the spool."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.pgoutput.grammar import TUPLE_AT, read_tuple
from pgrepl.errors import SourceError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.loops import pull_loop
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream
from tests.support.running.pulling import die_pulling, make_receiver, pull_once, pulling
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once, await_more, load

COPIES = (
    "select count(*) from pg_replication_slots"
    " where temporary and database = current_database() and slot_name ~ 'pull'"
)
MARKED = "select table_name from replication.source_table where resync_reason is not null"


def insert(streaming, first, last):
    """Insert each number in a transaction of its own."""
    streaming.source.execute(
        f"do $$ begin for n in {first}..{last} loop"
        " insert into t values (n); commit; end loop; end $$"
    )


def count(caplog, message):
    return sum(record.message == message for record in caplog.records)


def changes(streaming):
    """Return the messages of all changes in the spool, each bucket's in order."""
    rows = streaming.target.rows(
        "select format, payload from replication.raw_messages order by bucket, seq, part"
    )
    found = [
        message
        for format_name, payload in rows
        for message in payload_decoder(format_name, "UTF8").split(payload)
    ]
    return [message for message in found if not message.startswith((b"B", b"R", b'{"action":"B"'))]


def numbers(streaming):
    """Return the numbers that were inserted, in the order of the spool."""
    if streaming.settings.get("plugin") != "pgoutput":
        return [int(value) for value in streaming.values("t")]
    rows = [read_tuple(message, TUPLE_AT)[0] for message in changes(streaming)]
    return [int(row[0] or b"") for row in rows]


@pytest.fixture(autouse=True)
def _info(caplog):
    caplog.set_level("INFO", "pgrepl")


def test_backlog_is_pulled_in_chunks_and_each_change_arrives_once_in_order(streaming, caplog):
    insert(streaming, 1, 500)
    result = pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 501)]
    assert result.transaction_count == 500
    assert streaming.slot_lsn() == streaming.origin_lsn()
    assert (count(caplog, "pulling"), count(caplog, "streaming")) == (1, 0)


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_pulled_spool_is_the_streamed_one(source, stream_from, plugin, caplog):
    source.execute(
        "create table t (id bigint primary key, note text)", "create table keyless (id int)"
    )
    streaming = stream_from(source, plugin=plugin)
    insert(streaming, 1, 40)
    source.execute(
        "update t set note = 'é' where id < 4; delete from t where id = 9",
        "truncate keyless, t; insert into t values (1)",
        "begin; savepoint a; insert into t values (2); rollback to a; commit",
        "insert into t select g, repeat('x', 1000) from generate_series(10, 6000) g",
        "select pg_logical_emit_message(true, 'pgrepl', 'x')",
        "alter table t add more int default 5; insert into t values (7000, 'x', 1)",
        "insert into keyless values (1)",
        # wal2json cannot send it and says so; with pgoutput it is refused or not published.
        *(["update keyless set id = 2"] if plugin == "wal2json" else []),
        "select pg_logical_emit_message(false, 'pgrepl', 'x')",
    )
    slot = streaming.slot
    start = streaming.target.value("select consistent_point::text from replication.source")
    source.execute(f"select pg_copy_logical_replication_slot('{slot}', 'kept_{slot}')")
    streaming.receive_once(code=50 if plugin == "wal2json" else 0)
    streamed, marked = changes(streaming), streaming.target.rows(MARKED)
    assert len(streamed) > 6000
    source.execute(
        f"select pg_drop_replication_slot('{slot}')",
        f"select pg_copy_logical_replication_slot('kept_{slot}', '{slot}')",
        f"select pg_drop_replication_slot('kept_{slot}')",
    )
    streaming.target.execute(
        "truncate replication.raw_messages, replication.table_bucket",
        "update replication.source_table set resync_reason = null",
        f"select pg_replication_origin_drop('{slot}')",
        f"select pg_replication_origin_create('{slot}')",
        f"select pg_replication_origin_advance('{slot}', '{start}')",
        f"update replication.receive_progress set received_lsn = '{start}', last_seq = 0",
    )
    pull_once(streaming)
    assert count(caplog, "pulling") == 1
    assert changes(streaming) == streamed
    assert streaming.target.rows(MARKED) == marked
    assert marked == ([("keyless",)] if plugin == "wal2json" else [])
    assert streaming.target.rows(
        "select distinct kind, count(distinct seq) from replication.raw_messages"
        " where kind = 'serial' group by 1"
    ) == [("serial", 1)]


def test_loss_of_a_table_that_is_not_replicated_is_pulled_over(source, stream_from, caplog):
    source.execute(
        "create table t (id bigint primary key)",
        "create table hidden (id int)",
        "insert into hidden values (1)",
    )
    streaming = stream_from(source, exclude=["public.hidden"])
    source.execute("update hidden set id = 2")
    insert(streaming, 1, 20)
    pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 21)]
    assert (count(caplog, "pulling"), count(caplog, "streaming")) == (1, 0)
    assert streaming.target.rows(MARKED) == []


def test_lost_change_is_noted_where_it_was_lost(source, stream_from, caplog):
    source.execute(
        "create table t (id bigint primary key)",
        "create table keyless (id int)",
        "insert into keyless values (1)",
    )
    streaming = stream_from(source)
    insert(streaming, 1, 20)
    # A table that is dropped before it would take the mark along.
    before = source.value("select pg_current_wal_insert_lsn()::text")
    source.execute("update keyless set id = 2")
    insert(streaming, 21, 30)
    pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 31)]
    assert count(caplog, "a chunk has lost changes") >= 1
    assert streaming.target.rows(f"{MARKED} and lost_lsn > '{before}'") == [("keyless",)]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_receiver_that_dies_anywhere_loses_and_repeats_nothing(source, stream_from, plugin):
    source.execute("create table t (id bigint primary key, note text)")
    streaming = stream_from(source, plugin=plugin)
    inserted = 0
    for point, visit, once in (
        ("receiver.at_pull", 1, True),
        ("receiver.before_chunk", 2, True),
        ("receiver.after_chunk", 1, True),
        ("receiver.after_chunk", 2, True),
        ("receiver.before_commit", 1, True),
        ("receiver.before_commit", 2, True),
        ("receiver.after_commit_before_feedback", 1, True),
        ("receiver.after_commit_before_feedback", 2, True),
        ("receiver.before_advance", 1, True),
        ("receiver.after_advance", 1, True),
        ("receiver.at_switch", 1, False),
    ):
        insert(streaming, inserted + 1, inserted + 60)
        inserted += 60
        die_pulling(streaming, point, visit, once=once)
        # What is durable on the target, and nothing else, is removed on the source.
        assert streaming.slot_lsn() <= streaming.origin_lsn()
        spooled = numbers(streaming)
        assert spooled == list(range(1, len(spooled) + 1))
    pull_once(streaming)
    assert numbers(streaming) == list(range(1, inserted + 1))


def test_streaming_and_pulling_take_turns_under_load_and_lose_nothing(streaming, caplog):
    with load(streaming, pause_s=0) as done, pulling(streaming, pull_while_bytes=1 << 40):
        wait_until(lambda: count(caplog, "pulling") >= 5)
        await_more(done, 100)
        assert count(caplog, "streaming") >= 4
    assert_exactly_once(streaming)


def read_slot(streaming, max_rows):
    """Read from the slot as another client."""
    streaming.source.value(
        "select count(*) from pg_logical_slot_get_changes("
        f"'{streaming.slot}', null, {max_rows}, 'format-version', '2')"
    )


def interfere(monkeypatch, do):
    """Do something when the second chunk is about to be read."""
    visits = []

    def reach(name):
        visits.append(name)
        if name == "receiver.before_chunk" and visits.count(name) == 2:
            do()

    monkeypatch.setattr(pull_loop, "reach", reach)


def test_slot_that_another_client_reads_before_it_is_copied_is_refused(streaming, monkeypatch):
    insert(streaming, 1, 200)
    copy_slot = ReplicationStream.copy_slot

    def read_and_copy(*arguments):
        read_slot(streaming, 90)
        return copy_slot(*arguments)

    monkeypatch.setattr(ReplicationStream, "copy_slot", read_and_copy)
    with pytest.raises(SourceError, match="was consumed up to"):
        pull_once(streaming)
    assert streaming.values("t") == []


def test_what_another_client_reads_from_the_slot_is_in_its_copy(streaming, monkeypatch):
    insert(streaming, 1, 200)
    interfere(monkeypatch, lambda: read_slot(streaming, 90))
    pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 201)]
    assert streaming.slot_lsn() == streaming.origin_lsn()


def test_slot_that_another_client_reads_beyond_its_copy_is_refused(streaming, monkeypatch):
    insert(streaming, 1, 200)

    def insert_and_read():
        insert(streaming, 201, 202)
        read_slot(streaming, "null")

    interfere(monkeypatch, insert_and_read)
    with pytest.raises(SourceError, match="was consumed up to"):
        pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 201)]


def test_slot_advances_while_chunks_are_read(streaming, monkeypatch):
    insert(streaming, 1, 400)
    start, seen = streaming.slot_lsn(), []

    def look():
        wait_until(lambda: streaming.origin_lsn() > start)
        seen.append(streaming.origin_lsn())

    interfere(monkeypatch, look)
    advance = ReplicationStream.advance

    def record(stream, upto):
        seen.append(upto)
        advance(stream, upto)

    monkeypatch.setattr(ReplicationStream, "advance", record)
    pull_once(streaming)
    committed, first, *_, last = seen
    assert committed <= first < last == streaming.origin_lsn() == streaming.slot_lsn()


def test_backlog_is_streamed_where_no_slot_is_left_for_a_copy(stream_alone, caplog):
    streaming = stream_alone({"max_replication_slots": "1"})
    insert(streaming, 1, 100)
    pull_once(streaming)
    assert streaming.values("t") == [str(n) for n in range(1, 101)]
    assert (count(caplog, "pulling"), count(caplog, "streaming")) == (0, 1)
    assert "raise max_replication_slots" in caplog.text


@pytest.mark.parametrize(("plugin", "by"), [("wal2json", "temp_file_limit"), ("pgoutput", "time")])
def test_transaction_that_is_too_big_to_be_kept_by_the_source_is_streamed(
    source, stream_from, caplog, plugin, by
):
    """As it would be if it were even bigger: the source is not to keep all of it at once."""
    source.execute("create table t (id bigint primary key, note text)")
    streaming = stream_from(source, plugin=plugin)
    insert(streaming, 1, 100)
    rows = 200_000 if by == "temp_file_limit" else 300_000
    streaming.source.execute(f"insert into t select generate_series(1001, {1000 + rows})")
    insert(streaming, 101, 200)
    limits = {"pull_temp_bytes": 8 << 20} if by == "temp_file_limit" else {"pull_patience_s": 0.05}
    result = pull_once(streaming, pull_first_rows=100_000, **limits)
    assert (result.transaction_count, result.change_count) == (201, rows + 200)
    assert count(caplog, "a chunk is too big to be pulled") >= 1
    assert count(caplog, "streaming") == 1
    assert streaming.slot_lsn() == streaming.origin_lsn()


def test_transaction_that_goes_on_for_more_wal_than_a_chunk_is_streamed(streaming, caplog):
    """Each call would decode it from its beginning, and the last one keep all of it."""
    insert(streaming, 1, 50)
    streaming.source.execute("insert into t select generate_series(1001, 21000)")
    insert(streaming, 51, 100)
    result = pull_once(streaming, pull_window_bytes=1 << 18)
    assert (result.transaction_count, result.change_count) == (101, 20_100)
    assert count(caplog, "streaming") == 1
    assert streaming.slot_lsn() == streaming.origin_lsn()


def test_stop_ends_a_call_that_decodes(streaming):
    streaming.source.execute("insert into t select generate_series(1, 400000)")
    receiver = make_receiver(streaming, pull_patience_s=60)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(receiver.run)
        wait_until(
            lambda: streaming.source.value(
                "select count(*) from pg_stat_activity where query ~ '^copy .*slot_get' "
            )
        )
        receiver.stop()
        # The call may last for a minute.
        running.result(timeout=120)
    # The source does not go on with it, and keeps no copy of the slot.
    wait_until(lambda: streaming.source.value(COPIES) == 0)
    assert streaming.lines() == []


def test_exact_floats_are_streamed(source, stream_from, caplog):
    source.execute("create table t (id int primary key, f float8)")
    streaming = stream_from(source, special_floats="exact")
    source.execute("insert into t values (1, 'NaN')")
    pull_once(streaming)
    assert streaming.values("t", "f") == ["NaN"]
    assert (count(caplog, "pulling"), count(caplog, "streaming")) == (0, 1)


def test_full_spool_is_left_to_streaming_which_waits(source, stream_from, caplog):
    source.execute("create table t (id bigint primary key, x text)")
    streaming = stream_from(source, max_spool="64kB")
    noise = "(select string_agg(md5(random()::text || g), '') from generate_series(1, 4000) g)"
    for number in range(12):
        source.execute(f"insert into t select {number}, {noise}")
    small = {"pull_first_rows": 6, "pull_max_rows": 6, "spool_check_bytes": 1}
    # It is known to be full when something was written: a chunk is, before the next one is taken.
    with pulling(streaming, in_flight_bytes=1, **small):
        wait_until(lambda: "receiving pauses" in caplog.text)
        assert count(caplog, "streaming") == 1
        assert len(streaming.lines()) < 12
        end = Lsn.parse(source.value("select pg_current_wal_lsn()::text"))

        def is_received():
            streaming.target.execute("delete from replication.raw_messages")
            return streaming.origin_lsn() >= end

        wait_until(is_received)


@pytest.mark.parametrize("side", ["source", "target"])
def test_server_that_crashes_under_a_pull_is_received_on(
    side, make_cluster, make_database, stream_from, caplog
):
    clusters = {name: make_cluster() for name in ("source", "target")}
    source, target = (make_database(clusters[name], prefix=name) for name in ("source", "target"))
    source.execute("create table t (id bigint primary key)")
    streaming = stream_from(source, into=target)
    with pulling(streaming, pull_first_rows=3000, pull_max_rows=50_000):
        with load(streaming) as done:
            for _ in range(2):
                await_more(done, 200)
                clusters[side].restart("immediate")
            await_more(done, 200)
        wait_until(lambda: str(done[-1]) in streaming.values("t"))
        assert "trying again" in caplog.text
    assert_exactly_once(streaming)
