"""Tables that the target never had join while the source is written to."""

from __future__ import annotations

import signal

import pytest

from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.errors import SourceError, TargetError
from pgrepl.postgres.advisory_locks import receive_lock, take_lock
from pgrepl.postgres.connect import connect
from pgrepl.resync.joining import join
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.sources import read_patterns, record_patterns
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder, copy, make_config, slot_of, structure
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums, replay_slot
from tests.support.workloads.workload import make_tables, writers

NEW = """
create type app.mood as enum ('good', 'bad');
create domain app.short as text check (length(value) < 100);
create schema other;
create table app.newer (id integer generated always as identity primary key,
                        account integer references app.accounts, mood app.mood default 'good',
                        name app.short unique, body text, serial_no bigserial,
                        twice integer generated always as (account * 2) stored);
create table other.lines (id integer primary key, newer integer references app.newer,
                          note text not null, check (id > 0));
comment on table other.lines is 'lines';
create table app.moves_2 partition of app.moves for values in (2);
create table app.parts (id integer, at date, primary key (id, at)) partition by range (at);
create table app.parts_1 partition of app.parts for values from ('2026-01-01') to ('2027-01-01');
insert into app.newer (account, name, body)
  select g, 'n' || g, repeat('x', 3000) from generate_series(1, 300) g;
insert into other.lines select g, g, 'line' from generate_series(1, 300) g;
insert into app.moves select g, 2, 'third' from generate_series(1001, 1050) g;
insert into app.parts select g, '2026-06-01' from generate_series(1, 100) g;
"""


def resync(target, source, *tables: str, watcher: Recorder | None = None) -> list[str]:
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(tables), wait_s=30)
    report = resync_tables(config, config.sources[source.name], options, watcher or Recorder())
    return sorted(table.name for table in report.tables)


def test_tables_join_with_all_they_need_and_are_the_source_in_the_end(source, target):
    make_tables(source)
    with writers(source):
        copy(target, source)
        source.execute(NEW)
        seen = []
        there = f"{source.name}_app"

        def look() -> None:
            source.execute(
                "insert into app.newer (account, name) values (1, 'late')",
                "update app.newer set body = 'changed' where id = 1",
                "update app.newer set name = 'same' where id = 2",
                "delete from other.lines where id = 3",
            )
            seen.append(target.value(f"select to_regclass('{there}.newer')"))

        watcher = Recorder({"swap": look})
        names = ["app.newer", "other.lines", "app.moves_2", "app.parts"]
        found = resync(target, source, *names, watcher=watcher)
    assert found == ["app.moves_2", "app.newer", "app.parts_1", "other.lines"]
    # Nobody saw it before it was whole.
    assert seen == [None]
    schemas = {"app": there, "other": f"{source.name}_other"}
    assert replay_slot(source, target, slot_of(source), schemas) > 0
    for schema, copied in schemas.items():
        assert checksums(target, copied) == checksums(source, schema)
    assert target.rows("select from replication.left_out where reason like 'not made yet%'") == []
    prefix = f"{source.name}_"
    here, copies = structure(source, ("app", "other")), structure(target, ("app", "other"), prefix)
    assert {item for item in here ^ copies if item[1] != "app.history_id_seq"} == set()


def test_foreign_keys_of_a_join_that_is_killed_before_them_are_named(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    source.execute(NEW)
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.newer", "--config", config)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": "resync.swapped:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = "select reason from replication.left_out where reason like 'not made yet%'"
    statements = [reason.partition("run: ")[2] for (reason,) in target.rows(left)]
    assert any("FOREIGN KEY" in statement for statement in statements), statements
    target.execute(*statements)


@pytest.mark.parametrize("is_changed", [False, True])
def test_killed_join_goes_on_and_leaves_nothing_behind(source, target, tmp_path, is_changed):
    make_tables(source)
    copy(target, source)
    source.execute(NEW)
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.newer", "app.parts", "--config", config)
    begun = []
    for place in ("resync.made", "resync.copied", "resync.before_swap_commit"):
        killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": f"{place}:kill"})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert target.value(f"select to_regclass('{source.name}_app.newer')") is None
        begun.append(target.value("select min(started_at) from replication.resync"))
    # Filled, they are not filled again, unless they are others on the source by now.
    assert begun[1] == begun[2] > begun[0]
    if is_changed:
        source.execute("alter table app.newer add more int default 7")
    source.execute("insert into app.newer (name) values ('late')")
    done = run_pgrepl(*command)
    assert done.returncode == 0, done.stderr
    there = f"{source.name}_app.newer"
    count = target.value(f"select count(*) from {there}")
    # What came after its snapshot is still to be received.
    assert count == (301 if is_changed else 300)
    if is_changed:
        assert target.value(f"select min(more) from {there}") == 7
    assert target.rows("select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'") == []
    assert target.rows("select from replication.resync") == []
    assert target.rows("select from replication.parked_table") == []


def test_table_whose_changes_the_receiver_passes_over_is_refused(source, target):
    make_tables(source)
    copy(target, source)
    source.execute(NEW)
    source_id = target.value("select source_id from replication.source")
    with connect(target.endpoint(Side.TARGET), "test") as receiver:
        take_lock(receiver, receive_lock(source.name))
        record_patterns(receiver, source_id, include=["app.acc*"], exclude=[])
        with pytest.raises(SourceError, match=r"patterns that do not take in app\.newer"):
            resync(target, source, "app.newer")
        record_patterns(receiver, source_id, include=["app.*"], exclude=[])
        assert resync(target, source, "app.newer") == ["app.newer"]


def test_receiver_that_has_just_started_is_waited_for(source, target, monkeypatch):
    """It takes its lock first, and tells what it receives after that."""
    make_tables(source)
    copy(target, source)
    source.execute(NEW)
    source_id = target.value("select source_id from replication.source")

    def read_and_tell(connection, number):
        before = read_patterns(connection, number)
        record_patterns(receiver, source_id, include=["app.*"], exclude=[])
        return before

    with connect(target.endpoint(Side.TARGET), "test") as receiver:
        take_lock(receiver, receive_lock(source.name))
        monkeypatch.setattr(join, "read_patterns", read_and_tell)
        assert resync(target, source, "app.newer") == ["app.newer"]


def test_table_in_the_place_of_a_new_one_is_not_touched(source, target):
    make_tables(source)
    copy(target, source)
    source.execute("create table app.newer (id integer primary key)")
    target.execute(f"create table {source.name}_app.newer (mine text)")
    with pytest.raises(TargetError, match=r"in the place of app\.newer"):
        resync(target, source, "app.newer")
    assert target.rows(f"select * from {source.name}_app.newer") == []
