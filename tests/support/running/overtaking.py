"""A source whose DDL is captured, and resyncs that it comes in the way of."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.errors import UsageError
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions, ResyncReport
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.running.backlog import die_at
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import ALONE, Pipeline

TABLES = """
create schema app;
create table app.t (id int primary key, n int, body text);
create table app.v (id int primary key, n int, body text);
insert into app.t select g, g, 't' from generate_series(1, 60) g;
insert into app.v select g, -g, 'v' from generate_series(1, 60) g;
"""
#: The same, and the target has it not.
FRESH = """
create table app.fresh (id int primary key, n int, body text);
insert into app.fresh select g, g, 'f' from generate_series(1, 60) g;
"""
SWAP = (
    "alter table app.{0} rename to x",
    "alter table app.v rename to {0}",
    "alter table app.x rename to v",
)
HAPPENINGS = {
    "renamed": ("alter table app.{0} rename to u", "update app.u set n = n + 1000"),
    "dropped": ("drop table app.{0}",),
    "replaced": (
        "drop table app.{0}",
        "create table app.{0} (id int primary key, n int, body text)",
        "insert into app.{0} values (1, 1, 'another')",
    ),
    "swapped": (*SWAP, "update app.{0} set n = n + 1000"),
    "altered": ("alter table app.{0} add m int default 7", "update app.{0} set n = n + 1000"),
}


def begin(source: Database, target: Database) -> Pipeline:
    """Return a source with DDL captured, and a table that was made before."""
    source.execute(TABLES)
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    pipeline.copy()
    source.execute(FRESH)
    install(pipeline.config.sources[source.name])
    pipeline.apply(ALONE)
    return pipeline


def follow(pipeline: Pipeline) -> None:
    pipeline.receive()
    pipeline.replay(ALONE)


def happen(pipeline: Pipeline, statements: tuple[str, ...], table: str) -> None:
    """Do something on the source, and apply it."""
    pipeline.source.execute(*(statement.format(table) for statement in statements))
    follow(pipeline)


def resync(
    pipeline: Pipeline, *tables: str, way: WayAsked = "whole", **options: Any
) -> ResyncReport:
    """Copy tables, and follow the source meanwhile."""
    config, name = pipeline.config, pipeline.source.name

    def pause(_: float) -> None:
        follow(pipeline)

    chosen = ResyncOptions(tables=TableSelection.of(tables), way=way, wait_s=20, pause=pause)
    copies = TableCopies(config)
    return resync_tables(
        *(config, config.sources[name], chosen, Recorder(**options)),
        lambda copied: copies.apply_waiting(name, [(t.schema_name, t.table_name) for t in copied]),
    )


def left(pipeline: Pipeline) -> list[Any]:
    """Return what is left of resyncs, and of tables that there are no more."""
    target = pipeline.target
    there = {name for (name,) in pipeline.source.rows("select tablename::text from pg_tables")}
    return [
        *target.rows("select 'resync', table_name::text, state from replication.resync"),
        *target.rows("select 'parked', table_name::text, kind from replication.parked_table"),
        *target.rows("select 'due', table_name::text, reason from replication.resync_due"),
        *(
            (name, state)
            for name, state in target.rows(
                "select table_name::text, state from replication.source_table"
            )
            if name not in there or state == "copying"
        ),
        *target.rows("select 'shadow', relname::text from pg_class where relname ~ 'shadow_[0-9]'"),
        *target.rows("select 'waiting', tag from replication.ddl_pending"),
    ]


def cancel(pipeline: Pipeline, *tables: str) -> None:
    """Cancel what there is to cancel, and follow the source meanwhile."""
    config = pipeline.config
    own = config.sources[pipeline.source.name]
    with suppress(UsageError):
        cancel_tables(config, own, TableSelection.of(tables), 20, lambda _: follow(pipeline))


def half_copied(pipeline: Pipeline, table: str) -> int:
    """Have a resync in chunks die, and return its number."""
    place = "resync.chunk_placed"
    die_at(place, lambda: resync(pipeline, f"app.{table}", way="chunked"))
    query = f"select resync_id from replication.resync where table_name = '{table}'"
    return int(pipeline.target.value(query))
