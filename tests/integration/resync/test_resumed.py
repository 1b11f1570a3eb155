"""A resync of many tables that was killed goes on with those that it has not copied yet."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from tests.support.database import Database
from tests.support.program import run_pgrepl
from tests.support.running.copying import copy, slot_of
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums, replay_slot
from tests.support.workloads.workload import make_tables

#: Two of each kind, of which one is copied slowly; the small ones refer to the large ones.
TABLES = """
create table app.large (id integer primary key, body text);
insert into app.large select g, repeat('x', 1000) from generate_series(1, 1000) g;
create table app.small (id integer primary key, ref integer references app.accounts);
insert into app.small select g, g from generate_series(1, 10) g;
"""
NEW = """
create table app.new_large (id integer primary key, body text);
insert into app.new_large select * from app.large;
create table app.new_small (id integer primary key, ref integer references app.new_large,
                            old integer references app.small);
insert into app.new_small select id, id, id from app.small;
create table app.new_parts (id integer primary key) partition by range (id);
create table app.new_part partition of app.new_parts for values from (0) to (100);
create table app.new_rest partition of app.new_parts default;
insert into app.new_parts select generate_series(1, 200);
create table app.new_more (ref integer references app.new_small);
alter table app.large add ref integer references app.new_small;
"""
NAMES = ("large", "small", "new_large", "new_small", "new_part", "new_rest", "new_more")


def begun(target: Database) -> Mapping[str, tuple[str, Any]]:
    return {
        name: (state, at)
        for name, state, at in target.rows(
            "select table_name::text, state, started_at from replication.resync"
        )
    }


def test_tables_that_are_copied_when_it_is_killed_are_kept(source, target, tmp_path):
    make_tables(source)
    source.execute(TABLES)
    copy(target, source)
    source.execute(NEW)
    there = f"{source.name}_app"
    # As DDL would have done that is not captured here.
    target.execute(f"alter table {there}.large add ref integer")
    config = write_copy_config(tmp_path, source, target)
    command = (
        "resync",
        source.name,
        *(f"app.{name}" for name in NAMES[:4]),
        "app.new_parts",
        "app.new_more",
        "--way",
        "whole",
        "--config",
        config,
    )
    slowly = ("--max-rate", "300kB/s", "--jobs", "3")
    killed = run_pgrepl(*command, *slowly, env={"PGREPL_FAILPOINT": "resync.table_copied:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    first = begun(target)
    copied = {name for name, (state, _) in first.items() if state == "copied"}
    assert set(first) == set(NAMES)
    assert copied
    assert not copied & {"large", "new_large"}
    source.execute(
        "update app.large set body = 'late' where id % 2 = 0",
        "delete from app.new_more; delete from app.new_small where id = 3",
        "insert into app.new_parts values (1000)",
        "update app.small set ref = 77 where id = 5",
    )
    # What was copied is shown, what was not is copied from its first row on.
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": "resync.planned:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    second = begun(target)
    for name in NAMES:
        is_kept = second[name][1] == first[name][1]
        assert is_kept == (name in copied), name
        is_there = target.value(f"select to_regclass('{there}.{name}') is not null")
        assert is_there == (name in copied or not name.startswith("new"))
    done = run_pgrepl(*command)
    assert done.returncode == 0, done.stderr
    assert "left to you" not in done.stderr
    replay_slot(source, target, slot_of(source), {"app": there})
    assert checksums(target, there) == checksums(source, "app")
    keys = "select conname from pg_constraint where connamespace = '{}'::regnamespace order by 1"
    assert target.rows(keys.format(there)) == source.rows(keys.format("app"))
    for query in (
        "select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'",
        "select from replication.resync",
        "select from replication.parked_table",
        "select from replication.copy_part",
    ):
        assert target.rows(query) == []
