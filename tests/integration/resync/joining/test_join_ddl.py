"""DDL that names a table while it joins: foreign keys to it, another name, another schema."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import QUICK, Pipeline

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)

TABLES = """
create schema app;
create table app.items (id int primary key, n int);
insert into app.items select g, g from generate_series(1, 60) g;
"""
FRESH = """
create table app.fresh (id int primary key, item int, body text);
insert into app.fresh select g, g, 'b' from generate_series(1, 60) g;
"""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 5)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 5)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    """Return a source with DDL captured and a table that the target has not."""
    source.execute(TABLES)
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    pipeline.copy()
    source.execute(FRESH)
    install(pipeline.config.sources[source.name])
    pipeline.receive()
    return pipeline


@contextmanager
def following(pipeline: Pipeline) -> Iterator[set[str]]:
    """Receive and replay all the time; note by what name the new table is seen without rows."""
    stop = threading.Event()
    failed: list[BaseException] = []
    empty: set[str] = set()
    names = "select oid::regclass::text from pg_class where relname in ('fresh', 'newest')"

    def run() -> None:
        try:
            while not stop.is_set():
                pipeline.receive()
                pipeline.replay(ALONE)
                for (name,) in pipeline.target.rows(names):
                    with suppress(psycopg.errors.UndefinedTable):
                        if not pipeline.target.rows(f"select from {name} limit 1"):
                            empty.add(name)
                stop.wait(0.05)
        except BaseException as exc:  # noqa: BLE001  raised below
            failed.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield empty
    finally:
        stop.set()
        thread.join()
    assert failed == []


def join(pipeline: Pipeline, way: WayAsked, table: str, act: Callable[[], object]) -> None:
    """Copy a table; ``act`` runs when some or all rows are read, and it has not its name yet."""
    config, name = pipeline.config, pipeline.source.name
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 5 and way == "chunked":
            act()
        time.sleep(min(seconds, 0.05))

    options = ResyncOptions(tables=TableSelection.of([table]), way=way, wait_s=60, pause=pause)
    resync_tables(
        *(config, config.sources[name], options, Recorder({"swap": act})),
        lambda copied: TableCopies(config).apply_waiting(
            name, [(t.schema_name, t.table_name) for t in copied]
        ),
    )


def foreign_keys(database: Database, schema: str) -> list[tuple[Any, ...]]:
    return database.rows(
        "select conname::text from pg_constraint where contype = 'f'"
        f" and connamespace = '{schema}'::regnamespace order by 1"
    )


@pytest.mark.parametrize("way", [pytest.param("whole", marks=pytest.mark.soak), "chunked"])
def test_foreign_keys_to_and_from_it_are_there_in_the_end(pipeline, way):
    source, target = pipeline.source, pipeline.target

    def act() -> None:
        source.execute(
            "alter table app.items add fresh int references app.fresh",
            "update app.items set fresh = id where id < 9",
            "alter table app.fresh add foreign key (item) references app.items",
            "insert into app.fresh values (100, 7, 'late')",
            "create table app.third (id int primary key references app.fresh)",
            "insert into app.third values (100)",
        )

    with following(pipeline) as seen:
        join(pipeline, way, "app.fresh", act)
    pipeline.apply(ALONE)
    assert seen == set()
    if target.rows("select from replication.resync_due"):
        # Its text could not be run, for which replay copies the table again by itself.
        with following(pipeline):
            join(pipeline, "whole", "app.items", lambda: None)
    assert pipeline.differences("app") == []
    assert pipeline.parked() == []
    assert foreign_keys(target, pipeline.schema("app")) == foreign_keys(source, "app")


@pytest.mark.parametrize(
    ("way", "what"),
    [
        ("whole", "schema"),
        ("chunked", "table"),
        pytest.param("whole", "table", marks=pytest.mark.soak),
        pytest.param("chunked", "schema", marks=pytest.mark.soak),
    ],
)
def test_renamed_it_joins_under_its_new_name(pipeline, way, what):
    source, target = pipeline.source, pipeline.target
    schema = "app" if what == "table" else "store"
    name = "newest" if what == "table" else "fresh"

    def act() -> None:
        source.execute(
            "update app.fresh set body = 'before' where id < 9",
            "alter table app.fresh rename to newest"
            if what == "table"
            else "alter schema app rename to store",
            f"update {schema}.{name} set body = 'after' where id > 50",
            f"insert into {schema}.{name} values (100, 7, 'late')",
        )

    with following(pipeline) as seen:
        join(pipeline, way, "app.fresh", act)
    pipeline.apply(ALONE)
    assert seen == set()
    there = target.value(
        "select target_schema::text from replication.target_schema"
        f" where source_schema = '{schema}'"
    )
    rows = "select string_agg(t::text, ',' order by id) from {}.{} t"
    assert target.value(rows.format(there, name)) == source.value(rows.format(schema, name))
    assert target.value(rows.format(there, "items")) == source.value(rows.format(schema, "items"))
    assert target.rows("select from replication.resync") == []
    assert pipeline.parked() == []
    assert target.rows("select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'") == []
