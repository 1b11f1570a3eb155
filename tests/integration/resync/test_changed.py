"""DDL on a table while its copy as a whole begins: it is carried, or the copy starts over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from pgrepl.basebackup.report import Phase
from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install, uninstall
from pgrepl.errors import PgreplError, SourceChanged
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions, ResyncReport
from pgrepl.resync.run import resync_tables
from pgrepl.resync.tables import DdlPendingError
from tests.support.meanwhile import again, meanwhile
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.waiting import wait_until

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)
TABLES = """
create schema app;
create table app.t (id int primary key, n int, body text);
insert into app.t select g, g, repeat('b', 100) from generate_series(1, 60) g;
"""
FRESH = "create table app.fresh (id int primary key, n int); insert into app.fresh values (1, 1)"
OTHER = (
    "create table app.t (id int primary key, n int, body text); insert into app.t values (99, 1)"
)

CASES = {
    "schema renamed": "alter schema app rename to store; update store.t set n = -5 where id < 9",
    "schema replaced": f"alter schema app rename to store; create schema app; {OTHER}",
    "table replaced": f"alter table app.t rename to tt; {OTHER}; update app.tt set n = -5",
    "truncated": "truncate app.t; insert into app.t values (5, 5); truncate app.t",
    "rewritten": "alter table app.t alter n type bigint; update app.t set n = 2^40",
    "column": "alter table app.t add x int default 7; update app.t set x = id",
    "column dropped": "alter table app.t drop body; update app.t set n = 2",
    "key": "alter table app.t drop constraint t_pkey, add primary key (n, id); delete from app.t",
    "moved": "create schema away; alter table app.t set schema away; update away.t set n = -5",
    "made again": "drop table app.t; create table app.t (z text primary key)",
    "dropped": "drop table app.t",
}
#: What happens when: before the snapshot, or while rows are read, when tables are locked.
PHASES: list[tuple[str, Phase]] = [
    *((case, "waiting") for case in CASES),
    ("schema renamed", "data"),
    ("schema replaced", "data"),
]
QUICK_CASES = {("schema renamed", "data"), ("column", "waiting")}


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    """Return a source with DDL captured, and a copy of a table that is wrong."""
    source.execute(TABLES)
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    pipeline.copy()
    install(pipeline.config.sources[source.name])
    pipeline.apply(ALONE)
    target.execute(f"update {pipeline.schema('app')}.t set n = -99 where id % 3 = 0")
    return pipeline


@contextmanager
def following(pipeline: Pipeline) -> Iterator[None]:
    def follow() -> None:
        pipeline.receive()
        pipeline.replay(ALONE)

    with meanwhile(again(follow, 0.05)):
        yield


def resync(
    pipeline: Pipeline,
    tables: str,
    phase: Phase,
    act: Callable[[], object],
    way: WayAsked = "whole",
) -> ResyncReport:
    """Copy tables; when a phase begins, act."""
    config, name = pipeline.config, pipeline.source.name
    options = ResyncOptions(
        tables=TableSelection.of(tables.split()),
        way=way,
        wait_s=60,
        pause=lambda _: time.sleep(0.02),
    )
    return resync_tables(
        *(config, config.sources[name], options, Recorder({phase: act})),
        lambda copied: TableCopies(config).apply_waiting(
            name, [(t.schema_name, t.table_name) for t in copied]
        ),
    )


def once(pipeline: Pipeline, statements: str) -> Callable[[], None]:
    """Return what runs statements on the source the first time that it is called."""
    left = [statements]

    def act() -> None:
        if left:
            pipeline.source.execute(left.pop())

    return act


def unequal(pipeline: Pipeline) -> list[str]:
    """Return the tables of the source whose copies differ, or are not there."""
    source, target = pipeline.source, pipeline.target
    wrong = []
    rows = "select string_agg(t::text, ',' order by t::text) from {} t"
    for schema, name in source.rows(
        "select schemaname::text, tablename::text from pg_tables"
        " where schemaname in ('app', 'store', 'away')"
    ):
        there = target.value(
            f"select target_schema from replication.target_schema where source_schema = '{schema}'"
        )
        query = rows.format(f"{there}.{name}")
        if target.value(query) != source.value(rows.format(f"{schema}.{name}")):
            wrong.append(f"{schema}.{name}")
    return wrong


@pytest.mark.parametrize(
    ("case", "phase"),
    [pytest.param(*each, marks=[] if each in QUICK_CASES else pytest.mark.soak) for each in PHASES],
)
def test_table_is_the_source_in_the_end(pipeline, case, phase):
    with following(pipeline):
        report = resync(pipeline, "app.t", phase, once(pipeline, CASES[case]))
    pipeline.apply(ALONE)
    assert unequal(pipeline) == []
    assert bool(report.gone) == (case in ("dropped", "made again"))
    assert pipeline.parked() == []
    assert pipeline.target.rows("select from replication.resync") == []


def test_table_whose_rename_waits_for_its_copy_is_not_copied_under_its_new_name(pipeline):
    source, target = pipeline.source, pipeline.target
    refused: list[PgreplError] = []

    def rename() -> None:
        source.execute("alter schema app rename to store")
        wait_until(lambda: target.rows("select from replication.parked_table where kind = 'ddl'"))
        with pytest.raises(DdlPendingError) as caught:
            resync(pipeline, "store.t", "data", lambda: None)
        refused.append(caught.value)

    with following(pipeline):
        report = resync(pipeline, "app.t", "data", rename)
    assert len(refused) == 1
    assert [table.row_count for table in report.tables] == [60]
    pipeline.apply(ALONE)
    assert unequal(pipeline) == []
    assert pipeline.parked() == []


def test_copy_that_ddl_forgot_as_it_began_starts_over(pipeline):
    target = pipeline.target
    forgotten: list[object] = []

    def forget() -> None:
        # As a rename does that is applied at this moment, to another name and back.
        if not forgotten:
            forgotten.append(target.rows("delete from replication.resync returning state"))

    with following(pipeline):
        report = resync(pipeline, "app.t", "waiting", forget)
    assert forgotten == [[("requested",)]]
    assert [table.row_count for table in report.tables] == [60]
    pipeline.apply(ALONE)
    assert unequal(pipeline) == []
    assert pipeline.parked() == []
    assert target.rows("select from replication.resync") == []


def test_ddl_that_waits_for_the_copy_is_let_through(pipeline):
    done = []

    def alter(_: threading.Event) -> None:
        # As long as the copy's snapshot is kept it waits, and who reads the table waits for it.
        pipeline.source.execute("alter table app.t add x int default 7")
        done.append(True)

    def begin() -> None:
        # The keeper has its lock, and no worker has one yet.
        if not altering:
            altering.append(stack.enter_context(meanwhile(alter)))
            waits = "select from pg_locks where not granted and mode = 'AccessExclusiveLock'"
            wait_until(lambda: pipeline.source.rows(waits))

    altering: list[None] = []
    with following(pipeline), ExitStack() as stack:
        resync(pipeline, "app.t", "data", begin)
    assert done == [True]
    pipeline.apply(ALONE)
    assert unequal(pipeline) == []


def test_new_table_that_gets_a_column_before_its_snapshot_has_its_values(pipeline):
    pipeline.source.execute(FRESH)
    pipeline.receive()
    more = "alter table app.fresh add x int; update app.fresh set x = 8"
    with following(pipeline):
        resync(pipeline, "app.fresh", "waiting", once(pipeline, more))
    pipeline.apply(ALONE)
    # The other one is wrong from the first.
    assert unequal(pipeline) == ["app.t"]


@pytest.mark.parametrize(
    "statement",
    ["drop table app.u", pytest.param("alter table app.u rename to v", marks=pytest.mark.soak)],
)
def test_table_that_changes_while_it_is_copied_in_chunks_costs_no_other(
    pipeline, monkeypatch, statement
):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 10)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 10)
    pipeline.source.execute("create table app.u (id int primary key, n int)")
    pipeline.source.execute("insert into app.u select g, g from generate_series(1, 60) g")
    pipeline.apply(ALONE)
    act = once(pipeline, statement)

    def show(*_: object) -> None:
        """Act when a chunk of the second one is placed."""
        shown = "select row_count > 0 from replication.resync where table_name = 'u'"
        if pipeline.target.rows(shown) == [(True,)]:
            act()

    monkeypatch.setattr(Recorder, "show", show)
    with following(pipeline):
        report = resync(pipeline, "app.t app.u", "swap", lambda: None, way="chunked")
    pipeline.apply(ALONE)
    assert unequal(pipeline) == []
    copied = [table.table_name for table in report.tables]
    expected = (["t"], [("app", "u")]) if "drop" in statement else (["t", "v"], [])
    assert (copied, list(report.gone)) == expected


@pytest.mark.soak
def test_renamed_while_nobody_captures_ddl_it_is_named(pipeline):
    uninstall(pipeline.config.sources[pipeline.source.name])
    with pytest.raises(SourceChanged, match=r"app\.t"):
        resync(pipeline, "app.t", "waiting", once(pipeline, "alter table app.t rename to tt"))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter table app.t drop n", None),
        ("alter table app.t drop constraint few", None),
        (
            "alter table app.t drop n, alter body type text using body || '!'",
            "its copy was made after ALTER TABLE, applied later",
        ),
    ],
)
def test_what_was_dropped_before_a_copy_goes_when_its_turn_comes(pipeline, statement, reason):
    pipeline.source.execute("alter table app.t add constraint few check (n < 1000)")
    pipeline.apply(ALONE)
    pipeline.source.execute(statement)
    pipeline.receive()
    # The copy has a column more than the table, which keeps nobody from copying it again.
    resync(pipeline, "app.t", "waiting", lambda: None)
    pipeline.apply(ALONE)
    marked = pipeline.target.value("select resync_reason from replication.source_table")
    assert marked == reason
    assert unequal(pipeline) == ([] if reason is None else ["app.t"])
    kept = "select count(*) from pg_constraint where conname = 'few'"
    assert pipeline.target.value(kept) == pipeline.source.value(kept)


#: What a comparison of tables does not look at.
_BESIDE = """
select (select array_agg(indexname::text order by 1) from pg_indexes where schemaname = '{0}'),
       (select array_agg(description order by 1) from pg_description
         where objoid = '{0}.t'::regclass),
       (select array_agg(attstattarget::text || attstorage::text order by attnum)
          from pg_attribute where attrelid = '{0}.t'::regclass and attnum > 0),
       (select reloptions from pg_class where oid = '{0}.t'::regclass),
       (select count(*) from pg_statistic_ext)
"""


@pytest.mark.parametrize(
    "statement",
    [
        "create index by_n on app.t (n)",
        "alter index app.by_body rename to by_text",
        "drop index app.by_body",
        "comment on column app.t.n is 'how many'",
        "alter table app.t alter n set statistics 7, alter body set storage external",
        "alter table app.t set (fillfactor = 70)",
        "create statistics app.both on id, n from app.t",
    ],
)
def test_what_a_copy_does_not_bring_comes_when_its_turn_comes(pipeline, statement):
    pipeline.source.execute("create index by_body on app.t (body)")
    pipeline.apply(ALONE)
    pipeline.source.execute(statement)
    pipeline.receive()
    resync(pipeline, "app.t", "waiting", lambda: None)
    pipeline.apply(ALONE)
    expected = pipeline.source.rows(_BESIDE.format("app"))
    assert pipeline.target.rows(_BESIDE.format(pipeline.schema("app"))) == expected
    assert pipeline.target.value("select resync_reason from replication.source_table") is None
    assert unequal(pipeline) == []
