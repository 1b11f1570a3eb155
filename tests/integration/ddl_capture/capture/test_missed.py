"""What ran while nobody captured it is found, and said."""

from __future__ import annotations

import json

import pytest

from pgrepl.ddl_capture import find_missed, read_status, switch, uninstall
from pgrepl.ddl_capture.source import install
from tests.support.ddl.following import Following
from tests.support.program import run_pgrepl, write_config


def missed(following: Following):
    source = following.config.source(following.name)
    return find_missed(following.config, source, read_status(source))


@pytest.mark.parametrize("way", ["disable", "by hand", "uninstall"])
def test_tables_that_changed_while_the_capture_was_off_are_named(follow, way, tmp_path):
    following = follow()
    source, config = following.source, following.config.source(following.name)
    following.run(
        "create schema app; create table app.same (id int primary key)",
        "create table app.changed (id int primary key)",
        "create table app.dropped (id int primary key)",
    )
    # As replay notes how far it came.
    lsn = source.value("select pg_current_wal_lsn()::text")
    following.target.execute(
        "insert into replication.shard_progress"
        f" select source_id, 0, 1, 0, '{lsn}' from replication.source"
    )
    names = [name for (name,) in source.rows("select evtname from pg_event_trigger")]
    if way == "disable":
        switch(config, is_on=False)
    elif way == "by hand":
        source.execute(*(f"alter event trigger {name} disable" for name in names))
    else:
        uninstall(config)
    source.execute(
        "alter table app.changed add x int",
        "drop table app.dropped",
        "create table app.new (id int primary key)",
        "insert into app.same values (1)",
    )
    expected = [
        'app.changed: column "x": integer on the source, nothing on the target',
        "app.dropped: the source has no such table any more",
        "app.new: the target has no such table",
    ]
    if way == "by hand":
        # Nobody looked while they were off.
        source.execute(*(f"alter event trigger {name} enable always" for name in names))
    found = missed(following)
    assert (found.table_count, found.differences) == (3, expected)
    if way == "disable":
        switch(config, is_on=True)
    else:
        install(config)
    found = missed(following)
    assert (found.is_behind, found.differences) == (False, expected)
    file = write_config(
        tmp_path / "p.toml",
        following.target.dsn(),
        {following.name: source.dsn()},
    )
    done = run_pgrepl("ddl", "status", following.name, "--json", "--config", file)
    assert done.returncode == 50, done.stderr
    assert json.loads(done.stdout)["missed"]["differences"] == expected
    # Done by hand, nothing is left to say.
    following.target.execute(
        "alter table tgt_app.changed add x int",
        "drop table tgt_app.dropped",
        "delete from replication.source_table where table_name = 'dropped'",
    )
    source.execute("drop table app.new")
    assert missed(following).differences == []


def test_captured_ddl_that_is_on_its_way_is_not_taken_for_missed(follow):
    following = follow()
    following.run("create schema app; create table app.t (id int primary key)")
    following.source.execute("alter table app.t add x int")
    # The copy is older than the capture, so it is compared.
    following.target.execute("update replication.source_table set start_lsn = '0/1'")
    found = missed(following)
    assert (found.is_behind, len(found.differences)) == (True, 1)


def test_nothing_is_compared_where_everything_was_captured(follow):
    following = follow()
    following.run("create schema app; create table app.t (id int primary key)")
    complete = read_status(following.config.source(following.name)).complete_lsn
    following.target.execute(f"update replication.source set consistent_point = '{complete}'")
    assert missed(following) is None
