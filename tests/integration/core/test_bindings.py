"""Bindings of target time to source LSN, on a real target."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import errors

from pgrepl.lsn import Lsn
from pgrepl.store.progress.bindings import prune, publish
from tests.support.database import Database
from tests.support.observing.bindings import (
    add_streaming_source,
    apply,
    publish_at,
    spool,
    target_connection,
)
from tests.support.waiting import wait_until


@pytest.fixture
def source_id(target: Database) -> int:
    return add_streaming_source(target)


def bindings(target: Database, name: str = "shop") -> list[tuple[datetime, Lsn]]:
    rows = target.rows(
        f"select at, lsn::text from replication.progress where source = '{name}' order by at"
    )
    return [(at, Lsn.parse(lsn)) for at, lsn in rows]


def bind(target: Database, source_id: int, *pairs: tuple[str, str]) -> None:
    for at, lsn in pairs:
        target.execute(f"insert into replication.binding values ({source_id}, '{at}', '{lsn}')")


def test_binding_has_the_time_of_its_publication(target, source_id):
    before = target.value("select clock_timestamp()")
    assert publish_at(target, source_id, 0x200) == [True]
    after = target.value("select clock_timestamp()")
    ((at, lsn),) = bindings(target)
    assert before < at < after
    assert lsn == 0x200


def test_lsn_that_is_not_newer_publishes_nothing(target, source_id):
    assert publish_at(target, source_id, 0x200, 0x200, 0x1FF, 0x201) == [True, False, False, True]
    assert [lsn for _, lsn in bindings(target)] == [0x200, 0x201]


def test_bindings_published_in_one_transaction_differ_in_time(target, source_id):
    with target_connection(target) as connection, connection.transaction():
        for lsn in range(0x200, 0x300):
            assert publish(connection, source_id, Lsn(lsn))
    times = [at for at, _ in bindings(target)]
    assert len(times) == 0x100
    assert times == sorted(set(times))


def test_time_goes_on_by_microseconds_while_the_clock_stands_behind_a_binding(target, source_id):
    ahead = datetime.now(UTC) + timedelta(hours=3)
    bind(target, source_id, (ahead.isoformat(), "0/200"))
    publish_at(target, source_id, 0x300, 0x400)
    step = timedelta(microseconds=1)
    assert bindings(target) == [(ahead, 0x200), (ahead + step, 0x300), (ahead + 2 * step, 0x400)]


def test_publication_that_is_rolled_back_leaves_nothing(target, source_id):
    with target_connection(target) as connection:
        with connection.transaction(force_rollback=True):
            publish(connection, source_id, Lsn(0x300))
        assert publish(connection, source_id, Lsn(0x200))
    assert [lsn for _, lsn in bindings(target)] == [0x200]


def test_source_that_is_gone_publishes_nothing(target, source_id):
    assert publish_at(target, source_id + 1, 0x200) == [False]


def test_sources_do_not_touch_one_another(target, source_id):
    other = add_streaming_source(target, "crm")
    publish_at(target, source_id, 0x500)
    publish_at(target, other, 0x200)
    assert [lsn for _, lsn in bindings(target)] == [0x500]
    assert [lsn for _, lsn in bindings(target, "crm")] == [0x200]


def test_binding_is_refused_until_every_shard_has_passed_it(target, source_id):
    spool(target, source_id, seq=1, first=0x180, last=0x200)
    spool(target, source_id, seq=2, first=0x200, last=0x300)
    with pytest.raises(errors.CheckViolation, match="ahead of a shard"):
        publish_at(target, source_id, 0x200)
    apply(target, source_id, shard=0, seq=2, lsn=0x300)
    with pytest.raises(errors.CheckViolation, match="ahead of a shard"):
        publish_at(target, source_id, 0x200)
    apply(target, source_id, shard=1, seq=1, lsn=0x200)
    assert publish_at(target, source_id, 0x200) == [True]
    with pytest.raises(errors.CheckViolation, match="waits at 0/200"):
        publish_at(target, source_id, 0x300)
    apply(target, source_id, shard=1, seq=2, lsn=0x300)
    assert publish_at(target, source_id, 0x300) == [True]


def test_binding_before_the_first_shard_is_refused_while_something_is_spooled(target, source_id):
    target.execute("delete from replication.shard_progress")
    spool(target, source_id, seq=1, first=0x180, last=0x200)
    with pytest.raises(errors.CheckViolation, match="ahead of a shard"):
        publish_at(target, source_id, 0x200)
    assert publish_at(target, source_id, 0x180) == [True]


@pytest.mark.parametrize("role", ["origin", "replica"])
@pytest.mark.parametrize(
    "statement",
    [
        "update replication.binding set lsn = '0/201' where lsn = '0/200'",
        "update replication.binding set at = at + interval '1 s'",
        "delete from replication.binding where lsn = '0/300'",
        "delete from replication.binding",
        "truncate replication.binding",
        "insert into replication.binding values (ID, now() + interval '1 h', '0/250')",
        "insert into replication.binding values (ID, now() - interval '1 h', '0/400')",
    ],
)
def test_history_cannot_be_rewritten(target, source_id, role, statement):
    publish_at(target, source_id, 0x200, 0x300)
    before = bindings(target)
    with (
        target.connect(options=f"-c session_replication_role={role}") as connection,
        pytest.raises((errors.RestrictViolation, errors.CheckViolation)),
    ):
        connection.execute(statement.replace("ID", str(source_id)).encode())
    assert bindings(target) == before


def test_bindings_go_with_their_source(target, source_id):
    publish_at(target, source_id, 0x200, 0x300)
    target.execute("delete from replication.source")
    assert bindings(target) == []


def test_publishers_at_once_leave_bindings_in_order(target, source_id):
    def many(start: int) -> int:
        done = 0
        with target_connection(target) as connection:
            for lsn in range(start, start + 100):
                try:
                    done += publish(connection, source_id, Lsn(lsn))
                except errors.IntegrityError:
                    continue
        return done

    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(many, (0x200, 0x210, 0x220)))
    found = bindings(target)
    assert len(found) == sum(counts)
    assert found == sorted(found, key=lambda binding: binding[1])
    assert len({at for at, _ in found}) == len({lsn for _, lsn in found}) == len(found)


def test_retention_keeps_the_last_binding_before_the_horizon(target, source_id):
    days = [(f"2026-03-0{day} 00:00+00", f"0/{day}00") for day in range(1, 6)]
    bind(target, source_id, *days)
    horizon = datetime(2026, 3, 3, 12, tzinfo=UTC)
    answer = "select replication.lsn_as_of('shop', '2026-03-03 12:00+00')::text"
    before = target.value(answer)
    with target_connection(target) as connection:
        assert prune(connection, source_id, horizon) == 2
        assert prune(connection, source_id, horizon) == 0
    assert [lsn for _, lsn in bindings(target)] == [0x300, 0x400, 0x500]
    assert target.value(answer) == before


def test_retention_keeps_the_newest_binding_however_old(target, source_id):
    bind(target, source_id, ("2020-01-01 00:00+00", "0/100"), ("2020-01-02 00:00+00", "0/200"))
    with target_connection(target) as connection:
        assert prune(connection, source_id, datetime.now(UTC)) == 1
    assert [lsn for _, lsn in bindings(target)] == [0x200]


def test_lsn_as_of_a_time_is_the_last_binding_not_after_it(target, source_id):
    bind(target, source_id, ("2026-03-01 00:00+00", "0/100"), ("2026-03-02 00:00+00", "0/200"))

    def lsn_as_of(at):
        return target.value(f"select replication.lsn_as_of('shop', '{at}')::text")

    assert lsn_as_of("2026-02-28 23:59:59.999999+00") is None
    assert lsn_as_of("2026-03-01 00:00+00") == "0/100"
    assert lsn_as_of("2026-03-01 23:59:59.999999+00") == "0/100"
    assert lsn_as_of("2026-03-02 00:00+00") == "0/200"
    assert lsn_as_of("infinity") == "0/200"


def test_time_of_an_lsn_is_when_the_target_first_showed_it(target, source_id):
    bind(target, source_id, ("2026-03-01 00:00+00", "0/100"), ("2026-03-02 00:00+00", "0/200"))

    def time_of(lsn):
        return target.value(f"select replication.time_of('shop', '{lsn}')::date::text")

    assert [time_of(lsn) for lsn in ("0/1", "0/100", "0/101", "0/200")] == [
        "2026-03-01",
        "2026-03-01",
        "2026-03-02",
        "2026-03-02",
    ]
    assert time_of("0/201") is None


@pytest.mark.parametrize(
    "call",
    ["lsn_as_of('none', now())", "time_of('none', '0/1')", "wait_for('none', '0/1', '1 s')"],
)
def test_unknown_source_is_an_error(target, source_id, call):  # noqa: ARG001
    with pytest.raises(errors.UndefinedObject, match='there is no source "none"'):
        target.value(f"select replication.{call}")


def test_waiting_ends_when_the_lsn_is_published(target, source_id):
    publish_at(target, source_id, 0x200)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(target.dsn(application_name="waiter")) as reader,
    ):
        waiting = pool.submit(
            lambda: reader.execute("select replication.wait_for('shop', '0/300')").fetchall()
        )
        wait_until(
            lambda: target.value(
                "select count(*) from pg_stat_activity"
                " where application_name = 'waiter' and wait_event = 'PgSleep'"
            )
        )
        assert not waiting.done()
        publish_at(target, source_id, 0x2FF)
        assert not waiting.done()
        publish_at(target, source_id, 0x300)
        assert waiting.result(10) == [(True,)]
        # Still in the transaction in which it waited.
        assert reader.execute("select max(lsn) = '0/300' from replication.progress").fetchall() == [
            (True,)
        ]


def test_waiting_ends_at_the_timeout(target, source_id):
    publish_at(target, source_id, 0x200)
    assert target.value("select replication.wait_for('shop', '0/201', '50 ms')") is False
    assert target.value("select replication.wait_for('shop', '0/201', '0')") is False
    assert target.value("select replication.wait_for('shop', '0/200', '0')") is True


def test_waiting_in_a_transaction_that_sees_no_news_is_refused(target, source_id):  # noqa: ARG001
    with target.connect() as connection, connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        with pytest.raises(errors.InvalidTransactionState, match="read committed"):
            connection.execute("select replication.wait_for('shop', '0/1')")


def test_reader_needs_only_the_schema(target, source_id):
    publish_at(target, source_id, 0x200)
    target.execute(
        "drop role if exists bi", "create role bi login", "grant usage on schema replication to bi"
    )
    try:
        with target.connect(user="bi") as connection:
            found = connection.execute(
                "select replication.lsn_as_of('shop', now())::text,"
                " replication.time_of('shop', '0/200') <= now(),"
                " replication.wait_for('shop', '0/200')"
            ).fetchall()
            assert found == [("0/200", True, True)]
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute("select from replication.binding")
    finally:
        target.execute("drop owned by bi", "drop role bi")
