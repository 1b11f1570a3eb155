"""DDL that replay applies while a resync begins, ends, is cancelled or is dead: nothing is left."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import PgreplError, UsageError
from pgrepl.postgres.advisory_locks import resync_run_lock, take_lock
from pgrepl.postgres.connect import connect
from pgrepl.resync import Resyncer
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.choice import WayAsked
from pgrepl.store.parked import follow_parking, lock_parked, unpark
from pgrepl.store.resync.resync_chunks import find_live_copy
from tests.support.meanwhile import meanwhile
from tests.support.running.backlog import die_at
from tests.support.running.overtaking import (
    HAPPENINGS,
    SWAP,
    begin,
    cancel,
    follow,
    half_copied,
    happen,
    left,
    resync,
)
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.waiting import wait_until


def mostly_soak(quick: set[tuple[str, ...]], *axes: Iterable[str]) -> list[Any]:
    """Return all there is of some axes; what is not quick is for soak."""
    return [
        pytest.param(*each, marks=[] if each in quick else pytest.mark.soak)
        for each in product(*axes)
    ]


FOUND = mostly_soak(
    {("dropped", "whole", "fresh"), ("renamed", "whole", "t"), ("swapped", "chunked", "t")},
    *(HAPPENINGS, ("whole", "chunked"), ("t", "fresh")),
)
KILLED = [
    *mostly_soak(
        {("dropped", "copied", "fresh"), ("swapped", "parked", "t")},
        *(HAPPENINGS, ("parked", "copied", "chunks_begun", "chunk_placed"), ("t", "fresh")),
    ),
    *mostly_soak(set(), HAPPENINGS, ("made",), ("fresh",)),
]


#: What is done between a kill and the moment when replay applies DDL that came after it.
BEFORE_DDL = mostly_soak(
    {("renamed", "copied", "fresh", "another"), ("swapped", "chunk_placed", "t", "cancel")},
    *(HAPPENINGS, ("parked", "copied", "chunk_placed"), ("t", "fresh"), ("another", "cancel")),
)
#: The same after that moment.
AFTER_DDL = mostly_soak(
    {("replaced", "copied", "fresh"), ("altered", "chunk_placed", "t")},
    *(HAPPENINGS, ("parked", "copied", "chunk_placed"), ("t", "fresh")),
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 20)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 20)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    return begin(source, target)


@pytest.mark.parametrize(("what", "way", "table"), FOUND)
def test_table_that_changes_when_it_is_found_leaves_nothing_behind(
    pipeline, monkeypatch, table, way, what
):
    done: list[bool] = []

    def act(*_: object) -> None:
        """Between the moment when tables are found and when they are taken in hand."""
        if not done:
            done.append(True)
            happen(pipeline, HAPPENINGS[what], table)

    monkeypatch.setattr("pgrepl.resync.run.make_empty_roots", act)
    report = resync(pipeline, f"app.{table}", way=way)
    assert bool(report.gone) == (what in ("dropped", "replaced"))
    follow(pipeline)
    if what == "replaced" or table == "t":
        # It came by DDL, or was copied by the first; and the other one is not there yet.
        resync(pipeline, "app.*", way="whole")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


@pytest.mark.parametrize(("what", "place", "table"), KILLED)
def test_table_that_changes_after_a_kill_leaves_nothing_behind(pipeline, table, place, what):
    way: WayAsked = "chunked" if "chunk" in place else "whole"
    die_at(f"resync.{place}", lambda: resync(pipeline, f"app.{table}", way=way))
    happen(pipeline, HAPPENINGS[what], table)
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    follow(pipeline)
    resync(pipeline, "app.*", way="whole")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


@pytest.mark.parametrize(("what", "place", "table", "meanwhile_"), BEFORE_DDL)
def test_ddl_that_comes_after_a_kill_and_another_command_leaves_nothing_behind(
    pipeline, meanwhile_, table, place, what
):
    way: WayAsked = "chunked" if "chunk" in place else "whole"
    die_at(f"resync.{place}", lambda: resync(pipeline, f"app.{table}", way=way))
    pipeline.source.execute(*(statement.format(table) for statement in HAPPENINGS[what]))
    if meanwhile_ == "cancel":
        cancel(pipeline, f"app.{table}")
    else:
        pipeline.source.execute("create table app.other (id int primary key)")
        with suppress(PgreplError):
            resync(pipeline, "app.other")
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    follow(pipeline)
    resync(pipeline, "app.*", way="whole")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


@pytest.mark.parametrize(("what", "place", "table"), AFTER_DDL)
def test_cancel_after_a_kill_and_ddl_leaves_nothing_behind(pipeline, table, place, what):
    way: WayAsked = "chunked" if "chunk" in place else "whole"
    die_at(f"resync.{place}", lambda: resync(pipeline, f"app.{table}", way=way))
    happen(pipeline, HAPPENINGS[what], table)
    cancel(pipeline, "app.*")
    assert pipeline.target.rows("select table_name::text from replication.resync") == []
    follow(pipeline)
    resync(pipeline, "app.*", way="whole")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_table_that_is_worked_off_while_its_copy_begins_loses_no_change(pipeline):
    source, target, config = pipeline.source, pipeline.target, pipeline.config
    (source_id,) = target.rows("select source_id from replication.source")[0]
    target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, kind, reason)"
        f" values ({source_id}, 'app', 't', 'failed', 'a test')"
    )
    ready, waits = threading.Event(), "select from pg_locks where not granted"

    def work_off(_: threading.Event) -> None:
        """As pgrepl parked retry does, that takes as long as a copy needs to begin."""
        with connect(config.target.endpoint, "test") as session, session.transaction():
            follow_parking(session, source_id)
            lock_parked(session, source_id, ("app", "t"))
            ready.set()
            wait_until(lambda: target.rows(waits) or target.rows(begun))
            unpark(session, source_id, ("app", "t"))

    def write() -> None:
        """When the rows are read, and not in their place yet."""
        source.execute("update app.t set n = -1 where id < 9", "insert into app.t values (99, 9)")
        follow(pipeline)

    begun = "select from replication.resync where state = 'copying'"
    with meanwhile(work_off):
        assert ready.wait(60)
        resync(pipeline, "app.t", at={"swap": write})
    pipeline.apply(ALONE)
    assert target.value(f"select count(*) from {pipeline.schema('app')}.t where n = -1") == 8
    assert target.value(f"select count(*) from {pipeline.schema('app')}.t") == 61


def test_cancel_ends_the_resync_it_was_asked_for_whatever_the_table_is_called(pipeline):
    config = pipeline.config
    asked, other = half_copied(pipeline, "t"), half_copied(pipeline, "v")
    held = connect(config.target.endpoint, "test")
    take_lock(held, resync_run_lock(asked))

    def pause(_: float) -> None:
        if not held.closed:
            happen(pipeline, SWAP, "t")
            held.close()
        follow(pipeline)

    own = config.sources[pipeline.source.name]
    outcomes = cancel_tables(config, own, TableSelection.of(["app.t"]), 30, pause)
    assert outcomes == {("app", "t"): "cancelled"}
    found = pipeline.target.rows("select resync_id, table_name::text from replication.resync")
    assert found == [(other, "t")]
    assert cancel_tables(config, own, TableSelection.of(["*.*"]), 30, pause)
    assert left(pipeline) == []


def test_what_waited_and_cannot_be_applied_leaves_no_resync_after_a_cancel(pipeline):
    config, target = pipeline.config, pipeline.target
    there = f"{pipeline.schema('app')}.t"

    def spoil() -> None:
        pipeline.source.execute("update app.t set n = 5 where id = 5")
        follow(pipeline)

    die_at("resync.swapped", lambda: resync(pipeline, "app.t", at={"swap": spoil}))
    target.execute(f"alter table {there} add check (n <> 5) not valid")
    own = config.sources[pipeline.source.name]
    with pytest.raises(PgreplError):
        cancel_tables(config, own, TableSelection.of(["app.t"]), 30)
    assert cancel_tables(config, own, TableSelection.of(["app.t"]), 30)
    assert left(pipeline) == [("parked", "t", "failed")]


def test_refused_for_one_table_nothing_is_noted_of_the_others(pipeline):
    pipeline.source.execute("create table app.w (n int)")
    follow(pipeline)
    with pytest.raises(UsageError, match="in chunks"):
        resync(pipeline, "app.t", "app.w", way="chunked")
    assert left(pipeline) == []


def test_tables_that_ddl_ties_together_are_let_go_together(pipeline):
    source = pipeline.source

    def tie() -> None:
        source.execute(
            "update app.t set n = 7",
            "alter table app.t add foreign key (id) references app.v",
            "update app.v set n = 8",
        )
        follow(pipeline)

    report = resync(pipeline, "app.t", "app.v", at={"swap": tie})
    assert sorted(table.table_name for table in report.tables) == ["t", "v"]
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_resync_of_another_table_that_got_the_name_is_not_taken_for_ones_own(pipeline, monkeypatch):
    """Swapped here and already swapped back on the source, when the next chunk is placed."""
    other = half_copied(pipeline, "v")
    swapped: list[bool] = []

    def find(connection: Any, source_id: int, name: tuple[str, str], *more: Any) -> Any:
        if name == ("app", "t") and not swapped:
            swapped.append(True)
            happen(pipeline, SWAP, "t")
            # As whoever copies it does when he sees the new name.
            with psycopg.connect(pipeline.target.dsn()) as session:
                session.execute(
                    "update replication.resync set table_version = null where resync_id = %s",
                    (other,),
                )
            pipeline.source.execute(*(statement.format("t") for statement in SWAP))
        return find_live_copy(connection, source_id, name, *more)

    monkeypatch.setattr("pgrepl.resync.chunked.chunk.find_live_copy", find)
    resync(pipeline, "app.t", way="chunked")
    resync(pipeline, "app.v", way="chunked")
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert swapped
    assert left(pipeline) == []
    assert pipeline.differences("app") == []
