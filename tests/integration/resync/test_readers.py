"""What readers of the target see while a table is copied again, and what stands on it after."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import TargetUnavailable
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder, copy, make_config
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.running.replaying import checksums

TABLES = """
create schema app;
create table app.parent (id integer primary key, note text);
create table app.items (id integer primary key, parent integer references app.parent,
                        price numeric(10, 2), body text, doc json,
                        twice numeric generated always as (price * 2) stored);
create table app.children (id integer primary key, item integer references app.items);
create table app.plain (a integer, b text);
create table app.nothing ();
insert into app.parent select g, 'p' from generate_series(1, 10) g;
insert into app.items select g, 1 + g % 10, g, repeat('x', 3000), '{"a": 1}'
  from generate_series(1, 500) g;
insert into app.children select g, g from generate_series(1, 500) g;
insert into app.plain select g % 50, 'b' from generate_series(1, 500) g;
"""

PARTITIONED = """
create schema app;
create table app.p (id int, place text, primary key (id, place)) partition by list (place);
create table app.p_here partition of app.p for values in ('here');
create table app.p_there partition of app.p for values in ('there');
insert into app.p select g, case when g % 2 = 0 then 'here' else 'there' end
  from generate_series(1, 40) g;
"""
MOVE = "update app.p set place = case place when 'here' then 'there' else 'here' end where id <= {}"

#: What the owner of a target may build on a copy.
OWN = """
create role reader_of_{there};
create schema own;
create view own.cheap as select id, price from {there}.items where price < 100;
create materialized view own.total as select sum(price) from {there}.items;
create index items_body on {there}.items (left(body, 10));
create statistics own.kinds on id, parent from {there}.items;
create table own.notes (item integer references {there}.items);
create policy everything on {there}.items using (true);
alter table {there}.items enable row level security;
create publication own_items for table {there}.items;
create rule quiet as on update to {there}.items where false do instead nothing;
comment on table {there}.items is 'what we sell';
grant select (id, price) on {there}.items to reader_of_{there};
alter table {there}.items set (fillfactor = 70);
"""

ALL_OBJECTS = """
select oid::text from pg_class
 where relnamespace in ('own'::regnamespace, '{there}'::regnamespace)
union all select pg_describe_object(classid, objid, objsubid) from pg_depend
 where refobjid in (select oid from pg_class where relnamespace = '{there}'::regnamespace)
union all select relacl::text from pg_class where oid = '{there}.items'::regclass
union all select attacl::text from pg_attribute where attrelid = '{there}.items'::regclass
union all select description from pg_description where objoid = '{there}.items'::regclass
union all select reloptions::text from pg_class where oid = '{there}.items'::regclass
order by 1
"""


def resync(
    target: Database,
    source: Database,
    *tables: str,
    wait_s: int = 30,
    watcher: Recorder | None = None,
) -> None:
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(tables), wait_s=wait_s)
    resync_tables(config, config.sources[source.name], options, watcher or Recorder())


@contextmanager
def reader(target: Database, query: str, wrong: list[object], is_right) -> Iterator[None]:
    """Ask the same again and again, and keep every answer that is not right."""
    stop = threading.Event()
    asked = threading.Event()

    def ask() -> None:
        with psycopg.connect(target.dsn(), autocommit=True) as connection:
            while not stop.is_set():
                (row,) = connection.execute(query.encode()).fetchall()
                if not is_right(row):
                    wrong.append(row)
                asked.set()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert asked.wait(120)
        yield
    finally:
        stop.set()
        thread.join()


def test_readers_see_old_rows_then_new_ones_and_all_that_stands_on_a_table_stays(source, target):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    target.execute(OWN.format(there=there))
    before = target.rows(ALL_OBJECTS.format(there=there))
    with target.connect() as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(f"update {there}.items set price = -1 where id <= 100".encode())
        connection.execute(f"delete from {there}.items where id > 400".encode())
        connection.execute(f"insert into {there}.items (id, price) values (9999, -1)".encode())
        connection.execute(f"update {there}.plain set b = 'bad' where a = 7".encode())
    wrong: list[object] = []
    query = f"select count(*), count(*) filter (where price < 0) from {there}.items"
    with (
        target.connect() as old,
        reader(target, query, wrong, lambda row: row in ((401, 101), (500, 0))),
        reader(target, f"select count(*) from {there}.plain", wrong, lambda row: row == (500,)),
    ):
        old.execute("begin isolation level repeatable read; select 1")
        resync(target, source, "app.items", "app.plain", "app.nothing")
        # Whoever took its snapshot before looks at the table only now.
        assert old.execute(query.encode()).fetchall() == [(401, 101)]
    assert wrong == []
    assert checksums(target, there) == checksums(source, "app")
    assert target.rows(ALL_OBJECTS.format(there=there)) == before
    assert (
        target.rows(
            "select relname from pg_class where relnamespace = 'replication'::regnamespace"
            " and relname like 'shadow%'"
        )
        == []
    )
    target.execute(f"drop owned by reader_of_{there}", f"drop role reader_of_{there}")


def test_rows_that_are_right_are_not_written_again(source, target):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    versions = f"select id, xmin::text, ctid::text from {there}.items where id <> 3 order by 1"
    before = target.rows(versions)
    # On the source nothing is written at all.
    source.execute(f"alter database {source.name} set default_transaction_read_only = on")
    target.execute(f"update {there}.items set doc = '{{\"a\":1}}' where id = 3")
    resync(target, source, "app.items")
    assert target.rows(versions) == before
    assert target.value(f"select doc::text from {there}.items where id = 3") == '{"a": 1}'


def test_who_has_the_table_locked_is_named_and_nothing_changed(source, target):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    with target.connect() as writer:
        writer.execute("begin")
        writer.execute(f"update {there}.items set price = 0 where id = 1".encode())
        with pytest.raises(TargetUnavailable, match=f"locked by pid {writer.info.backend_pid}"):
            resync(target, source, "app.items", wait_s=1)
        assert target.value("select state from replication.resync") == "copied"
        writer.execute("rollback")
    # What is copied stays copied.
    again = Recorder({"waiting": lambda: pytest.fail("it is copied")})
    resync(target, source, "app.items", watcher=again)
    assert checksums(target, there) == checksums(source, "app")


def test_row_that_moved_between_partitions_is_seen_once(source, target, tmp_path):
    source.execute(PARTITIONED)
    pipeline = Pipeline(source, target)
    pipeline.copy()
    command = ("resync", source.name, "app.p", "--way", "whole")
    config = write_copy_config(tmp_path, source, target)
    seen = f"select count(*), count(distinct id) from {pipeline.schema('app')}.p"

    def move_and_die(rows: int, place: str) -> None:
        source.execute(MOVE.format(rows))
        pipeline.receive()
        pipeline.replay(ALONE)
        env = {"PGREPL_FAILPOINT": f"{place}:kill"}
        killed = run_pgrepl(*command, "--config", config, env=env)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert target.rows(seen) == [(40, 40)]

    # Parked, so that the changes which follow wait.
    move_and_die(30, "resync.parked")
    move_and_die(20, "resync.swapped")
    move_and_die(10, "parked.retried")
    done = run_pgrepl(*command, "--config", config)
    assert done.returncode == 0, done.stderr
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []


def test_partition_that_cannot_go_on_keeps_no_other_waiting(source, target, tmp_path):
    source.execute(PARTITIONED)
    pipeline = Pipeline(source, target)
    pipeline.copy()
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.p", "--way", "whole", "--config", config)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": "resync.copied:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    source.execute("insert into app.p values (1000, 'here'), (1001, 'there')")
    pipeline.receive()
    pipeline.replay(ALONE)
    there = pipeline.schema("app")
    target.execute(f"alter table {there}.p_here add constraint own check (id < 100)")
    assert run_pgrepl(*command).returncode == 50
    assert target.rows(f"select id from {there}.p where id >= 1000") == [(1001,)]
    assert [table for table, _ in pipeline.parked()] == ["p_here"]
    target.execute(f"alter table {there}.p_here drop constraint own")
    done = run_pgrepl("parked", "retry", source.name, "app.p_here", "--config", config)
    assert done.returncode == 0, done.stderr
    assert pipeline.differences("app") == []
