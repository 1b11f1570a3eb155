"""Tables that the target never had, copied in chunks: nobody sees them before they are whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import install
from pgrepl.errors import PgreplError
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import CancelledError, ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.meanwhile import at_pause, meanwhile
from tests.support.running.copying import Recorder
from tests.support.running.live import Live
from tests.support.workloads.live_writers import FILL, TABLE, live_writers

FIRST = {"is_first": True}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 25)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 25)


def begin(
    source: Database, target: Database, folder: Path, plugin: str, consistency: str = "shard"
) -> Live:
    """Return a source with a table ``t`` that the target has not."""
    live = Live(source, target, folder, plugin, consistency)
    live.begin("create table other (id int primary key)")
    source.execute(f"set search_path = app; {TABLE}", FILL)
    live.follow()
    return live


@contextmanager
def reader(target: Database) -> Iterator[list[object]]:
    """Look for the table all the time, and note what is wrong when it is there."""
    noted: list[object] = []
    query = (
        "select count(*) > 300, count(*) = count(distinct id), bool_and(tag = md5(a || body))"
        " from app_copy.t"
    )

    def read(stop: threading.Event) -> None:
        with target.connect() as connection:
            while not stop.wait(0.02):
                ((is_there,),) = connection.execute(
                    "select to_regclass('app_copy.t') is not null"
                ).fetchall()
                row = connection.execute(query).fetchone() if is_there else (True, True, True)
                if row != (True, True, True):
                    noted.append(row)

    with meanwhile(read):
        yield noted


def is_shown(target: Database) -> bool:
    return bool(target.value("select to_regclass('app_copy.t') is not null"))


def leftovers(target: Database) -> list[object]:
    return [
        *target.rows("select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'"),
        *target.rows("select from replication.resync"),
        *target.rows("select from replication.resync_chunk"),
    ]


@pytest.mark.parametrize(("plugin", "consistency"), [("wal2json", "shard"), ("pgoutput", "batch")])
def test_written_to_meanwhile_it_is_the_source_and_never_seen_before(
    source, target, tmp_path, plugin, consistency
):
    live = begin(source, target, tmp_path, plugin, consistency)
    with reader(target) as noted, live.streaming(), live_writers(source, 1):
        live.resync("t", request=FIRST)
        assert is_shown(target)
    assert live.differences("t") == set()
    assert noted == []
    assert leftovers(target) == []
    assert target.rows(
        "select state, resync_reason from replication.source_table where table_name = 't'"
    ) == [("ready", None)]
    keys = "select conname::text from pg_constraint where conrelid = '{}.t'::regclass order by 1"
    assert target.rows(keys.format("app_copy")) == source.rows(keys.format("app"))


def test_killed_anywhere_it_goes_on_after_the_last_chunk(source, target, tmp_path):
    live = begin(source, target, tmp_path, "wal2json")
    seen = []
    for place in (
        "resync.chunks_begun:kill",
        "resync.chunk_read:kill:2",
        "resync.before_chunk_commit:kill:2",
        "resync.chunk_placed:kill:2",
        "resync.before_chunks_end:kill",
    ):
        assert live.resync_until_killed("t", place, request=FIRST)
        assert not is_shown(target)
        seen.append(target.value("select chunk_count from replication.resync"))
        source.execute(
            "update app.t set a = a + 1, tag = md5(a + 1 || body)", "delete from app.t where id = 3"
        )
    # Of each run that died before a commit one chunk is there, of the last one all of them.
    assert seen == [0, 1, 2, 4, 14]
    source.execute("create table app.lines (id int primary key, t int references app.t)")
    assert live.resync_until_killed("t", "resync.joined:kill", request=FIRST)
    with live.streaming():
        live.resync("lines", request=FIRST)
    assert live.differences("t") == set()
    assert leftovers(target) == []


def test_ddl_starts_it_over(source, target, tmp_path):
    live = begin(source, target, tmp_path, "wal2json")
    install(live.config.source("shop"))

    def act() -> None:
        source.execute(
            "alter table app.t add column c int default 5",
            "update app.t set c = id",
            "alter table app.t rename column u to v",
            "begin; delete from app.t where id > 900; alter table app.t drop a; commit",
        )

    with reader_of_nothing(target) as shown, live.streaming():
        live.resync("t", request=FIRST, pause=at_pause(5, act))
    assert shown == [0]
    assert live.differences("t") == set()
    assert target.value("select max(c) from app_copy.t") == 900
    assert leftovers(target) == []
    history = "select count(*) from replication.ddl_history where outcome = 'skipped'"
    assert target.value(history) == 3


@contextmanager
def reader_of_nothing(target: Database) -> Iterator[list[int]]:
    """Say in the end how often a table was there without rows."""
    counts = [0]

    def read(stop: threading.Event) -> None:
        with target.connect() as connection:
            while not stop.wait(0.02):
                ((oid,),) = connection.execute("select to_regclass('app_copy.t')").fetchall()
                if oid is not None:
                    ((count,),) = connection.execute("select count(*) from app_copy.t").fetchall()
                    counts[0] += count == 0

    with meanwhile(read):
        yield counts


def test_truncate_starts_it_over(source, target, tmp_path):
    live = begin(source, target, tmp_path, "pgoutput")

    def act() -> None:
        source.execute("truncate app.t", FILL, "delete from app.t where id % 2 = 0")

    with live.streaming():
        live.resync("t", request=FIRST, pause=at_pause(5, act))
    assert live.differences("t") == set()
    assert leftovers(target) == []


def test_dropped_meanwhile_it_ends_and_nothing_is_left(source, target, tmp_path):
    live = begin(source, target, tmp_path, "wal2json")
    install(live.config.source("shop"))

    def act() -> None:
        source.execute("drop table app.t")

    with live.streaming(), pytest.raises(PgreplError, match=r"dropped|does not exist"):
        live.resync("t", request=FIRST, pause=at_pause(5, act))
    assert leftovers(target) == []
    assert target.rows("select from replication.source_table where table_name = 't'") == []


def test_cancelled_it_is_as_if_it_had_never_begun(source, target, tmp_path):
    live = begin(source, target, tmp_path, "wal2json")
    selection = TableSelection.of(["app.t"])
    config = live.config

    def act() -> None:
        target.execute("update replication.resync set is_cancelled = true")

    with live.streaming(), pytest.raises(CancelledError):
        live.resync("t", request=FIRST, pause=at_pause(5, act))
    assert not is_shown(target)
    outcomes = cancel_tables(config, config.source("shop"), selection, 30)
    assert outcomes == {("app", "t"): "cancelled"}
    assert leftovers(target) == []
    source.execute("delete from app.t where id < 500")
    live.follow()
    # And once more, from the first row on.
    with live.streaming():
        live.resync("t", request=FIRST)
    assert live.differences("t") == set()


def test_new_tables_join_in_chunks_with_all_they_need(source, target, tmp_path):
    live = begin(source, target, tmp_path, "wal2json")
    source.execute(
        "create type app.mood as enum ('good', 'bad')",
        "create table app.lines (id bigint generated always as identity primary key,"
        " t int references app.t, mood app.mood default 'good', no bigserial, note text,"
        " twice int generated always as (t * 2) stored)",
        "insert into app.lines (t, note) select id, 'n' from app.t",
        "create table app.parts (id int primary key) partition by range (id)",
        "create table app.parts_1 partition of app.parts for values from (0) to (100)",
        "insert into app.parts values (7)",
    )
    config = live.config

    def run(way: WayAsked, *tables: str) -> list[str]:
        options = ResyncOptions(tables=TableSelection.of(tables), way=way, wait_s=60)
        report = resync_tables(
            *(config, config.source("shop"), options, Recorder()),
            lambda copied: TableCopies(config).apply_waiting(
                "shop", [(t.schema_name, t.table_name) for t in copied]
            ),
        )
        return sorted(t.name for t in report.tables)

    with live.streaming():
        assert run("chunked", "app.t", "app.lines") == ["app.lines", "app.t"]
        source.execute("insert into app.lines (t, note) select id, 'late' from app.t limit 5")
        assert run("auto", "app.parts") == ["app.parts_1"]
    for table in ("t", "lines", "parts"):
        assert live.differences(table) == set()
    foreign = (
        "select conname::text from pg_constraint where contype = 'f' and conrelid = '{}.lines'"
    )
    assert target.rows(f"{foreign.format('app_copy')}::regclass") == source.rows(
        f"{foreign.format('app')}::regclass"
    )
    assert leftovers(target) == []
