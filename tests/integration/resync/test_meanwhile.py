"""What happens to tables while they are copied, over both plugins, with DDL captured.

The source counts transactions beyond 32 bits, of which the stream has the lower 32; these begin
again with 3 while a table is copied.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.errors import TargetError
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from pgrepl.throwaway.unprivileged import server_account
from tests.support.database import Database
from tests.support.meanwhile import again, meanwhile
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import QUICK, Pipeline

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)

TABLES = """
create schema app;
create table app.items (id int primary key, n int not null, body text);
create table app.others (id int primary key, n int);
insert into app.items select g, g, repeat('b', 3000) from generate_series(1, 60) g;
insert into app.others select g, g from generate_series(1, 60) g;
"""
FRESH = """
create table app.fresh (id bigint generated always as identity primary key, item int, body text);
insert into app.fresh (item, body) select id, body from app.items;
"""


#: More subtransactions, each with a number of its own, than a snapshot or a session lists.
MANY = """
do $$ begin
  for i in 1..70 loop
    begin
      update app.{table} set {column} = {column} + 1 where id = i;
      if i % 7 = 0 then raise exception 'undone'; end if;
    exception when raise_exception then null;
    end;
  end loop;
end $$
"""
WRITES = (
    (
        "begin; update app.fresh set item = -item where id < 9; savepoint a;"
        " delete from app.fresh; rollback to a; delete from app.fresh where id = 11; commit"
    ),
    "insert into app.fresh (item) values (7)",
    MANY.format(table="fresh", column="item"),
    "begin; update app.fresh set item = 0 where id = 20; prepare transaction 'one'",
    "commit prepared 'one'",
)
MOVES = (
    (
        "begin; update app.others set id = id + 30 where id > 50; savepoint a;"
        " update app.others set n = 7; rollback to a; commit"
    ),
    MANY.format(table="others", column="n"),
    "begin; update app.others set n = 8 where id < 9; prepare transaction 'two'",
    "commit prepared 'two'",
)

#: The number of the next transaction, in the second round of 32 bits, and the first of the third.
NEXT, ROUND = 2**32 - 20_000, 2**33
#: How many are left in a round when a resync begins.
LEFT = 40
#: Transactions whose states are in one file.
STATES = 32 * 8192 * 4
#: Numbers that no table of the stream knows of.
SPEND = """
create temporary table if not exists spent (n int);
do $$ begin
  for i in 1..{count} loop
    begin insert into spent values (i); exception when division_by_zero then null; end;
  end loop;
end $$
"""


@pytest.fixture
def later_cluster(binaries) -> Iterator[Cluster]:
    settings = {**LOGICAL_DECODING, "max_prepared_transactions": "5"}
    with Cluster(binaries=binaries, settings=settings) as cluster:
        for dbname in ("template1", "postgres"):
            with psycopg.connect(cluster.dsn(dbname), autocommit=True) as connection:
                connection.execute("vacuum (freeze)")
        cluster.stop()
        states = cluster.data / "pg_xact" / f"{NEXT // STATES:04X}"
        for command in (
            ["dd", "if=/dev/zero", f"of={states}", f"bs={STATES // 4}", "count=1"],
            [
                *(binaries.program("pg_resetwal"), "--epoch=1", f"--next-transaction-id={NEXT}"),
                *(f"--oldest-transaction-id={NEXT - 1000}", "-D", cluster.data),
            ],
        ):
            subprocess.run(
                command, check=True, capture_output=True, **server_account().subprocess_user
            )
        cluster.start()
        yield cluster


def spend(source: Database, statement: str) -> None:
    """Have the round end soon after a statement."""
    left = ROUND - int(source.value("select pg_current_xact_id()::text::numeric"))
    assert left > LEFT
    with source.connect() as connection:
        connection.execute(SPEND.format(count=left - LEFT).encode())
        connection.execute(statement.encode())


def has_begun_again(source: Database) -> bool:
    return bool(source.value("select pg_current_xact_id()::text::numeric") > ROUND)


@pytest.fixture
def source(later_cluster: Cluster, make_database: Callable[..., Database]) -> Database:
    return make_database(later_cluster, prefix="source")


@contextmanager
def following(pipeline: Pipeline) -> Iterator[None]:
    """Receive and replay all the time. DDL on a table that is copied waits, and its source too."""

    def follow() -> None:
        pipeline.receive()
        pipeline.replay(ALONE)

    with meanwhile(again(follow, 0.05)):
        yield


def resync(
    pipeline: Pipeline, *tables: str, swap: Callable[[], object], way: WayAsked = "whole"
) -> None:
    """Copy tables; ``swap`` runs when they are read, and not in their places yet."""
    config, name = pipeline.config, pipeline.source.name
    options = ResyncOptions(tables=TableSelection.of(tables), way=way, wait_s=60)
    copies = TableCopies(config)
    resync_tables(
        *(config, config.sources[name], options, Recorder({"swap": swap, "chunks": swap})),
        lambda copied: copies.apply_waiting(name, [(t.schema_name, t.table_name) for t in copied]),
    )


def work_off_what_verify_marks(source: str, *options: str | Path) -> None:
    found = run_pgrepl("verify", source, *options)
    assert found.returncode == 60, found.stderr
    done = run_pgrepl("resync", source, "--where-needed", *options)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["copied:", "app.items:"]]
    found = run_pgrepl("verify", source, *options)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("plugin", "way"),
    [pytest.param("wal2json", "chunked", marks=pytest.mark.soak), ("pgoutput", "whole")],
)
def test_tables_are_the_source_in_the_end(source, target, tmp_path, plugin, way):
    """``way``: that of the resync in which numbers begin again."""
    source.execute(TABLES)
    assert source.value("select pg_current_xact_id()::text::numeric") > 2**32
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    # Nobody captured this.
    source.execute(FRESH)
    install(pipeline.config.sources[source.name])
    pipeline.ddl = Applier(pipeline.config)
    there = pipeline.schema("app")

    if way == "whole":
        spend(source, "update app.fresh set item = 1000 where id = 10")
    with following(pipeline):
        resync(pipeline, "app.fresh", swap=lambda: source.execute(*WRITES))
    assert has_begun_again(source) == (way == "whole")
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []

    target.execute(f"update {there}.items set n = 0 where id = 5")
    config = write_copy_config(tmp_path, source, target)
    config.write_text(f'{config.read_text()}plugin = "{plugin}"\n')
    with following(pipeline):
        work_off_what_verify_marks(source.name, "--config", config)

    def truncate_and_alter() -> None:
        source.execute(
            "update app.items set n = n + 1",
            "begin; truncate app.items; insert into app.items values (3, 3, 'new'); commit",
            "alter table app.items add c int not null default 5, alter n type bigint",
            "insert into app.items values (4, 4, 'late', 6)",
            "alter table app.items rename body to words",
            "update app.items set words = 'x' where id = 3",
            "update app.others set n = 0 where id = 1",
        )

    with following(pipeline):
        resync(pipeline, "app.items", swap=truncate_and_alter)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    assert target.value(f"select string_agg(words, ',' order by id) from {there}.items") == "x,late"

    def rename() -> None:
        source.execute(
            "update app.items set c = 1",
            "alter table app.items rename to goods",
            "create table app.items (id int primary key)",
            "insert into app.items values (1)",
            "insert into app.goods values (9, 9, 'goods', 9)",
        )

    with following(pipeline):
        resync(pipeline, "app.items", "app.others", swap=rename)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    # DDL that is on its way gives the copy its columns, not a resync.
    source.execute("alter table app.others add late int")
    with pytest.raises(TargetError, match="has other columns"):
        resync(pipeline, "app.others", swap=rename)
    pipeline.apply(ALONE)
    target.execute(f"update {there}.others set n = -1 where id % 3 = 0")

    if way == "chunked":
        spend(source, "update app.others set n = 1000 where id = 10")
    with following(pipeline):
        resync(pipeline, "app.others", swap=lambda: source.execute(*MOVES), way="chunked")
    assert has_begun_again(source)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    assert target.rows("select from replication.resync") == []
    assert pipeline.parked() == []
