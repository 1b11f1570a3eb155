"""What happens to a table while it is copied in chunks: kills, TRUNCATE, DDL, a cancel."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from pgrepl.basebackup.rows.copy_pipe import Transferred, transfer
from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import install
from pgrepl.errors import AlreadyRunning, DdlError, TargetUnavailable
from pgrepl.postgres.advisory_locks import find_holder, resync_lock, try_lock
from pgrepl.postgres.connect import connect
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.chunked.keys import find_key
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import CancelledError, ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.meanwhile import at_pause, meanwhile
from tests.support.running.copying import Recorder
from tests.support.running.live import Live
from tests.support.waiting import wait_until

ROWS = 120
CHUNK = 25
TABLE = "create table t (id int primary key, a int, body text)"


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", CHUNK)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: CHUNK)


@pytest.fixture
def live(source: Database, target: Database, tmp_path) -> Live:
    """Return a table whose copy has nothing right, and too much."""
    live = Live(source, target, tmp_path).begin(TABLE)
    source.execute(f"insert into app.t select g, g, 'x' from generate_series(1, {ROWS}) g")
    live.follow()
    target.execute(
        "update app_copy.t set a = 0",
        "delete from app_copy.t where id % 2 = 0",
        "insert into app_copy.t select g, g, 'extra' from generate_series(500, 510) g",
    )
    return live


def test_killed_anywhere_it_goes_on_after_the_last_chunk(live):
    seen = []
    for place in (
        "resync.chunks_begun:kill",
        "resync.chunk_read:kill:2",
        "resync.before_chunk_commit:kill:2",
        "resync.chunk_placed:kill:2",
        "resync.before_chunks_end:kill",
    ):
        assert live.resync_until_killed("t", place)
        seen.append(live.target.value("select chunk_count from replication.resync"))
        live.source.execute("update app.t set a = a + 1", "delete from app.t where id = 3")
    # Of each run that died before a commit one chunk is there, of the last one all of them.
    assert seen == [0, 1, 2, 4, 5]
    with live.streaming():
        live.resync("t")
    assert live.differences("t") == set()
    assert live.target.value("select count(*) from replication.resync_chunk") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "truncate app.t",
        "begin; truncate app.t; insert into app.t values (7, 7, 'new'); commit",
    ],
)
def test_truncate_starts_it_over(live, statement):
    def act() -> None:
        live.source.execute(statement)
        live.source.execute("insert into app.t select g, g, 'later' from generate_series(50, 60) g")

    with live.streaming():
        live.resync("t", pause=at_pause(3, act))
    assert live.differences("t") == set()


def test_ddl_is_waited_for_and_starts_it_over(live):
    install(live.config.source("shop"))
    done = threading.Event()

    def act() -> None:
        live.source.execute(
            "alter table app.t add column c int default 5",
            "update app.t set c = id",
            "alter table app.t rename column body to words",
        )
        done.set()

    with live.streaming():
        live.resync("t", pause=at_pause(3, act))
    assert done.is_set()
    assert live.differences("t") == set()
    assert live.target.value("select max(c) from app_copy.t") == ROWS


def test_rename_is_followed(live):
    install(live.config.source("shop"))
    endpoint = live.config.target.endpoint
    was, now = (resync_lock("shop", ("app", name)) for name in ("t", "renamed"))
    is_refused = threading.Event()

    def act() -> None:
        live.source.execute(
            "alter table app.t rename to renamed",
            "update app.renamed set a = -a where id % 5 = 0",
        )
        renamed = "select from replication.resync where table_name = 'renamed'"
        wait_until(lambda: live.target.rows(renamed))
        # Whoever copies it has not seen its new name yet.
        other = ResyncOptions(tables=TableSelection.of(["app.renamed"]), way="chunked")
        with pytest.raises(AlreadyRunning):
            resync_tables(config, config.source("shop"), other, Recorder())
        # Its session ends later than it does.
        wait_until(lambda: try_lock(refused, now))
        is_refused.set()

    def asks() -> bool:
        """Whether whoever copies the table asks for the lock of its new name."""
        copier = find_holder(watcher, was) or 0
        last = f"select query from pg_stat_activity where pid = {copier}"
        return "pg_try_advisory_lock" in str(live.target.rows(last))

    def end_late(stop: threading.Event) -> None:
        wait_until(lambda: stop.is_set() or (is_refused.is_set() and asks()))
        refused.close()

    config = live.config
    options = ResyncOptions(
        tables=TableSelection.of(["app.t"]), way="chunked", pause=at_pause(3, act)
    )
    with (
        connect(endpoint, "test") as refused,
        connect(endpoint, "test") as watcher,
        live.streaming(),
        meanwhile(end_late),
    ):
        report = resync_tables(config, config.source("shop"), options, Recorder())
    assert [table.name for table in report.tables] == ["app.renamed"]
    assert live.differences("renamed") == set()
    assert live.target.rows("select from replication.resync") == []


@pytest.mark.parametrize("is_replaced", [False, True])
def test_schema_renamed_between_the_lock_and_the_rows_is_followed(live, monkeypatch, is_replaced):
    """And another table that has the name by then is not taken for it."""
    install(live.config.source("shop"))
    begun = []

    def rename_first(*arguments: Any, **options: Any) -> Transferred:
        begun.append(1)
        if len(begun) == 2:
            live.source.execute("alter schema app rename to later")
            if is_replaced:
                live.source.execute(
                    f"create schema app; {TABLE.replace(' t ', ' app.t ')}",
                    "insert into app.t select g, -1, 'other' from generate_series(1, 200) g",
                )
        return transfer(*arguments, **options)

    monkeypatch.setattr("pgrepl.resync.chunked.chunk.transfer", rename_first)
    with live.streaming():
        live.resync("t")
    rows = live.source.rows("select * from later.t order by 1")
    assert live.target.rows("select * from later_copy.t order by 1") == rows
    assert not is_replaced or live.differences("t") == set()


def test_table_parked_meanwhile_is_copied_as_a_whole_unless_told_otherwise(live):
    seen = []

    def park() -> None:
        # Nothing moves it out of there but a resync.
        live.target.execute(
            "insert into replication.parked_table (source_id, schema_name, table_name, kind,"
            " reason) select source_id, 'app', 't', 'failed', 'a test parked it'"
            " from replication.source"
        )
        live.source.execute("update app.t set a = -a where id < 9")

    def look() -> None:
        seen.append(
            live.target.rows(
                "select chunk_count > 0, chunk_estimate, row_count > 0 from replication.resync"
            )
        )
        park()

    config = live.config
    tables = TableSelection.of(["app.t"])
    live.request("t")
    with live.streaming():
        options = ResyncOptions(tables=tables, way="chunked", pause=at_pause(3, look))
        with pytest.raises(DdlError, match="cannot be copied in chunks any more"):
            resync_tables(config, config.source("shop"), options, Recorder())
        live.target.execute("delete from replication.parked_table")
        options = replace(options, way="auto", pause=at_pause(1, park))
        copies = TableCopies(config)
        report = resync_tables(
            *(config, config.source("shop"), options, Recorder()),
            lambda _: copies.apply_waiting("shop", [("app", "t")]),
        )
    assert [table.name for table in report.tables] == ["app.t"]
    assert live.differences("t") == set()
    assert live.target.rows("select from replication.resync_chunk") == []
    assert live.target.rows("select from replication.parked_table") == []
    ((is_begun, estimate, has_rows),) = seen[0]
    assert (is_begun, has_rows) == (True, True)
    assert estimate >= ROWS // CHUNK


def test_open_transaction_is_placed_and_not_waited_for(live):
    with live.source.connect() as writer:
        writer.execute("begin; update app.t set a = -a where id < 60; savepoint s")
        writer.execute("update app.t set a = 1000; rollback to s")
        writer.execute(
            "update app.t set id = 300 where id = 10; update app.t set id = 10 where id = 90"
        )
        with live.streaming():
            live.resync("t", wait_s=20)
        writer.execute("commit")
    live.follow()
    assert live.differences("t") == set()


def test_unique_value_that_a_wrong_row_has_is_waited_for(live):
    live.target.execute("insert into app_copy.t select g, 0, 'x' from generate_series(2, 120, 2) g")
    live.source.execute("update app.t set body = id::text")
    live.follow()
    for side, schema in ((live.source, "app"), (live.target, "app_copy")):
        side.execute(f"create unique index on {schema}.t (body) where body <> 'extra'")
    # Row 1 wants what a row has that is copied much later, and what another one has got since.
    live.target.execute("update app_copy.t set body = '1x' where id = 1")
    live.target.execute("update app_copy.t set body = '1' where id = 119")

    def swap() -> None:
        live.source.execute(
            "update app.t set body = 'x' where id = 2; update app.t set body = '2' where id = 100;"
            " update app.t set body = '100' where id = 2"
        )

    with live.streaming():
        live.resync("t", pause=at_pause(2, swap))
    assert live.differences("t") == set()


def test_cancelled_it_leaves_a_table_that_is_fed(live):
    def act() -> None:
        live.target.execute("update replication.resync set is_cancelled = true")

    live.target.execute("update replication.source_table set resync_reason = 'lost'")
    with live.streaming():
        with pytest.raises(CancelledError):
            live.resync("t", pause=at_pause(2, act))
        config = live.config
        outcomes = cancel_tables(config, config.source("shop"), TableSelection.of(["app.t"]), 60)
    assert outcomes == {("app", "t"): "cancelled"}
    assert live.target.value("select count(*) from replication.resync_chunk") == 0
    assert live.target.value("select resync_reason from replication.source_table") == "lost"
    assert live.target.value("select count(*) from replication.resync") == 0
    live.source.execute("update app.t set a = 77 where id = 1")
    live.follow()
    assert live.target.value("select a from app_copy.t where id = 1") == 77


def test_without_replay_it_says_so_and_goes_on_later(live):
    with pytest.raises(TargetUnavailable, match="replay to pass"):
        live.resync("t", wait_s=0)
    assert live.target.value("select state from replication.resync") == "copied"
    with live.streaming():
        live.resync("t")
    assert live.differences("t") == set()


def test_command_copies_in_chunks_when_told_to(live):
    config = live.config
    options = ResyncOptions(tables=TableSelection.of(["app.t"]), way="chunked")
    with live.streaming():
        report = resync_tables(config, config.source("shop"), options, Recorder())
    assert [(table.table_name, table.row_count) for table in report.tables] == [("t", ROWS)]
    assert live.differences("t") == set()


def test_rate_is_kept(live):
    begin = time.monotonic()
    size = live.source.value("select sum(length(t::text)) from app.t t")
    with live.streaming():
        live.resync("t", request={"max_rate": int(size)})
    assert time.monotonic() - begin > 0.7


def test_keys_of_many_types_and_tables_of_no_rows(source, target, tmp_path):
    live = Live(source, target, tmp_path).begin(
        'create table t (a text collate "C", b numeric, c timestamptz, d uuid, e bytea,'
        " n int generated always as identity, g text generated always as (a || 'g') stored,"
        " v json, primary key (b, a, c, d, e))",
        "create table nothing (id int primary key)",
        "create table p (id int, k int, primary key (id, k)) partition by list (k)",
        "create table p_0 partition of p for values in (0)",
        "create table p_1 partition of p for values in (1)",
    )
    source.execute(
        "insert into app.t (a, b, c, d, e, v) select chr(65 + g % 50) || '\\t\\' || g, g / 7.0,"
        " '2020-01-01'::timestamptz + g * interval '1 hour', md5(g::text)::uuid,"
        " md5(g::text)::bytea, '{\"x\": 1}' from generate_series(1, 100) g",
        "insert into app.p select g, g % 2 from generate_series(1, 80) g",
    )
    live.follow()
    target.execute(
        "update app_copy.t set v = '{\"x\":  1}' where b > 5",
        "delete from app_copy.t where b > 9",
        "insert into app_copy.nothing values (1), (2)",
        "delete from app_copy.p where id < 40",
    )

    def act() -> None:
        source.execute("update app.t set a = a || 'ä', b = b + 3, v = '2' where b < 3")

    def move() -> None:
        source.execute("update app.p set k = 1 - k where id > 40 and id % 3 = 0")

    with live.streaming():
        live.resync("t", pause=at_pause(2, act))
        live.resync("nothing")
        live.resync("p_0", pause=at_pause(2, move))
        live.resync("p_1")
    assert {table: live.differences(table) for table in ("t", "nothing", "p")} == {
        "t": set(),
        "nothing": set(),
        "p": set(),
    }


def test_what_an_order_goes_by_is_known(source):
    source.execute(
        'create table t (a text collate "C", b text, c int, d jsonb, primary key (a, b, c, d))'
    )
    oid = source.value("select 't'::regclass::oid::bigint")
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        orders = {column.name: column.order_name for column in find_key(connection, oid)}
    assert orders["a"] == "UTF8/C"
    assert orders["c"] is None
    assert not orders["d"]
    assert orders["d"] is not None
    assert orders["b"]
