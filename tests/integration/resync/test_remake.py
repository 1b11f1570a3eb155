"""Copies that have other columns than their tables get the source's structure with its rows."""

from __future__ import annotations

import logging
import signal

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import TargetError, UsageError
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder, copy, make_config, slot_of, structure
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums, replay_slot

TABLES = """
create schema app;
create table app.items (id int primary key, price int not null, gone text not null, note text,
                        twice int generated always as (price * 2) stored);
create table app.lines (id int primary key, item int references app.items);
create table app.parts (id int, at int, v int, primary key (id, at)) partition by range (at);
create table app.parts_1 partition of app.parts for values from (0) to (10);
create table app.parts_2 partition of app.parts for values from (10) to (20);
insert into app.items select g, g, 'g', 'n' from generate_series(1, 50) g;
insert into app.lines select g, g from generate_series(1, 50) g;
insert into app.parts select g, g % 20, g from generate_series(1, 60) g;
"""
CHANGED = """
create type app.mood as enum ('good', 'bad');
alter table app.items drop column twice;
alter table app.items alter id type bigint, alter price type numeric(12, 2) using price / 3.0,
  drop column gone, add mood app.mood not null default 'bad', add serial_no bigserial,
  add constraint priced check (price > 0);
alter table app.items add twice numeric generated always as (price * 2) stored;
create unique index items_serial on app.items (serial_no);
alter table app.parts alter v type text, add w int default 7;
create table app.parts_3 partition of app.parts for values from (20) to (30);
insert into app.parts values (99, 25, 'new', 1);
"""
# What the target's owner has made.
OWN = """
create view {there}.prices with (security_barrier) as select id, price from {there}.items;
create view {there}.dear as select price + 1 as more from {there}.prices where price > 10;
create view {there}.notes as select note from {there}.items;
comment on view {there}.prices is 'what it costs';
comment on column {there}.prices.price is 'a price';
comment on column {there}.items.price is 'of one';
grant select on {there}.prices, {there}.items to public;
grant select (more) on {there}.dear to pg_monitor;
create index mine on {there}.items (price, note);
alter table {there}.items add own text;
"""
# Without who granted it: that is the owner, and what our role owns it hands over.
STANDING = """
select c.relname, c.reloptions::text,
       (select string_agg(split_part(x::text, '/', 1), ',' order by x::text)
          from unnest(c.relacl) x where x::text not like '%arwdDxt%'),
       obj_description(c.oid), col_description(c.oid, 2),
       (select string_agg(split_part(x::text, '/', 1), ',')
          from pg_attribute a cross join unnest(a.attacl) x where a.attrelid = c.oid),
       (select string_agg(pg_get_indexdef(i.indexrelid), ',') from pg_index i
         where i.indrelid = c.oid and i.indexrelid = to_regclass('{there}.mine'))
  from pg_class c
 where c.relnamespace = '{there}'::regnamespace
   and (c.relkind = 'v' or c.relname in ('items', 'parts_1'))
 order by 1
"""


def resync(target, source, *tables: str, watcher: Recorder | None = None) -> list[str]:
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(tables), wait_s=30)
    report = resync_tables(config, config.sources[source.name], options, watcher or Recorder())
    return sorted(table.name for table in report.tables)


def test_copy_is_given_the_source_columns_and_keeps_what_stands_on_it(source, target, caplog):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    target.execute(OWN.format(there=there))
    before = target.rows(STANDING.format(there=there))
    oids = target.rows(f"select '{there}.items'::regclass::oid, '{there}.parts_1'::regclass::oid")
    source.execute(CHANGED)

    def write() -> None:
        # Readers have what they had.
        assert target.value(f"select count(*) from {there}.prices") == 50
        source.execute(
            "update app.items set price = price + 0.25, mood = 'good' where id % 7 = 0",
            "delete from app.parts where id = 3",
            "insert into app.parts values (77, 1, 'late', 2)",
        )

    with caplog.at_level(logging.WARNING):
        # One partition brings the others.
        found = resync(
            target, source, "app.items", "app.parts_1", watcher=Recorder({"swap": write})
        )
    assert found == ["app.items", "app.parts_1", "app.parts_2", "app.parts_3"]
    assert target.rows(STANDING.format(there=there)) == before
    assert oids == target.rows(
        f"select '{there}.items'::regclass::oid, '{there}.parts_1'::regclass::oid"
    )
    assert target.value(f"select more from {there}.dear order by 1 limit 1") is not None
    # What the source has not may be the owner's: that is said, with what removes it.
    told = [line for line in caplog.messages if "is not on the source" in line]
    assert [line.split()[1] for line in told] == ['"gone"', '"own"'], told
    # So may a type be that is another one here.
    types = {line.split()[1]: line for line in caplog.messages if "as on the source" in line}
    assert set(types) >= {'"id"', '"price"', '"v"'}, types
    assert "was of type integer and is of type bigint now" in types['"id"'], types
    target.execute(*(line.partition("run: ")[2] for line in told))
    assert replay_slot(source, target, slot_of(source), {"app": there}) >= 0
    assert checksums(target, there) == checksums(source, "app")
    target.execute(
        f"comment on column {there}.items.price is null; drop index {there}.mine;"
        f" drop view {there}.dear, {there}.prices, {there}.notes"
    )
    here, copies = structure(source, ("app",)), structure(target, ("app",), f"{source.name}_")
    assert here ^ copies == set()
    assert target.rows("select from replication.left_out where reason like 'not made yet%'") == []
    assert target.rows("select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'") == []


def test_what_is_in_the_way_is_named_and_killed_it_goes_on(source, target, tmp_path):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    source.execute(
        "alter table app.items drop column twice",
        "alter table app.items alter note type int using 7, alter price type bigint",
    )
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(["app.items"]), way="chunked")
    with pytest.raises(UsageError, match="other columns"):
        resync_tables(config, config.sources[source.name], options, Recorder())
    target.execute(f"create materialized view {there}.kept as select note from {there}.items")
    with pytest.raises(TargetError, match=r"materialized view .*kept uses a column"):
        resync(target, source, "app.items")
    target.execute(
        f"drop materialized view {there}.kept",
        f"create view {there}.upper as select upper(note) from {there}.items",
    )
    # The rows are copied, and are not copied again.
    copied = target.rows("select resync_id, state, started_at from replication.resync")
    assert copied[0][1] == "copied"
    with pytest.raises(TargetError, match=r"view .*upper does not work"):
        resync(target, source, "app.items")
    assert target.rows("select resync_id, state, started_at from replication.resync") == copied
    # Nothing changed so far.
    assert target.value(f"select count(*) from {there}.upper where upper = 'N'") == 50
    target.execute(f"drop view {there}.upper")
    config_file = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.items", "--config", config_file)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": "resync.before_swap_commit:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert target.rows("select resync_id, state, started_at from replication.resync") == copied
    # Another structure by now: what was copied is of no use.
    source.execute("alter table app.items add more int default 1")
    done = run_pgrepl(*command)
    assert done.returncode == 0, done.stderr
    assert target.value(f"select sum(more + note) from {there}.items") == 50 * 8
    assert target.rows("select from replication.resync") == []
    assert target.rows("select from replication.parked_table") == []


def test_table_made_anew_under_its_name_takes_the_place_of_the_old(source, target):
    source.execute(TABLES)
    copy(target, source)
    there = f"{source.name}_app"
    source.execute(
        "drop table app.lines",
        "create table app.lines (id text primary key, item bigint, at date default '2026-01-02')",
        "insert into app.lines values ('one', 1), ('two', 2)",
    )
    assert resync(target, source, "app.lines") == ["app.lines"]
    assert checksums(target, there)["lines"] == checksums(source, "app")["lines"]
