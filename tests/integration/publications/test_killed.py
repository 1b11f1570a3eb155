"""Killed around its publications, a copy, a join or a removal goes on, and nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.database import Database
from tests.support.program import run_pgrepl, write_config
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.waiting import wait_until

#: No event trigger of ours publishes a table that is made.
WITHOUT_GUARD = """
do $$ declare name text; begin
    for name in select evtname from pg_event_trigger where evtname ^@ 'pgrepl_publications_' loop
        execute format('alter event trigger %I disable', name);
    end loop;
end $$
"""


@pytest.fixture
def config(source, target, tmp_path) -> Path:
    source.execute(
        "create table t (id int primary key, v text)",
        "create table keyless (v text)",
        "insert into t select g, 'x' from generate_series(1, 20) g",
        "insert into keyless select 'x' from generate_series(1, 20) g",
    )
    path = write_config(tmp_path / "p.toml", target.dsn(), {source.name: source.dsn()})
    with path.open("a", encoding="utf-8") as file:
        file.write('plugin = "pgoutput"\nappend_only = ["public.keyless"]\n')
    return path


def published(source: Database) -> list[str]:
    """Return the tables all of whose changes are."""
    return [
        name
        for (name,) in source.rows(
            "select tablename::text from pg_publication_tables"
            f" where pubname = 'pgrepl_{source.name}'"
        )
    ]


def run(config: Path, *arguments: str, place: str | None = None) -> None:
    env = {} if place is None else {"PGREPL_FAILPOINT": f"{place}:kill"}
    done = run_pgrepl(*arguments, "--config", config, env=env)
    assert done.returncode == (0 if place is None else -signal.SIGKILL), done.stderr


@pytest.mark.parametrize(
    "place",
    [
        "basebackup.published",
        pytest.param("basebackup.before_schema_commit", marks=pytest.mark.soak),
    ],
)
def test_copy_goes_on_and_knows_what_is_not_sent(config, source, target, place):
    run(config, "basebackup", source.name, place=place)
    assert "t" in published(source)
    source.execute("insert into t values (21, 'y')", "update keyless set v = 'y'")
    run(config, "basebackup", source.name)
    # No UPDATE of this table is sent: from the copy on they are counted.
    source.execute("update t set v = 'z'", "update keyless set v = 'z'")
    counted = "select pg_stat_get_tuples_updated('keyless'::regclass)"
    wait_until(lambda: source.value(counted) == 40)
    done = run_pgrepl("receive", source.name, "--once", "--config", config)
    assert (done.returncode, "lost changes: public.keyless" in done.stderr) == (50, True)
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.replay(ALONE)
    assert pipeline.differences() == ["keyless"]


def test_join_goes_on_when_its_table_is_published(config, source, target):
    run(config, "basebackup", source.name)
    source.execute(WITHOUT_GUARD, "create table fresh (id int primary key)")
    source.execute("insert into fresh values (1)")
    assert "fresh" not in published(source)
    command = ("resync", source.name, "public.fresh")
    run(config, *command, place="resync.published")
    assert "fresh" in published(source)
    source.execute("insert into fresh values (2)")
    run(config, *command)
    source.execute("insert into fresh values (3)")
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.apply(ALONE)
    assert pipeline.differences() == []


def test_removal_goes_on_when_its_publications_are_dropped(config, source, target):
    run(config, "basebackup", source.name)
    command = ("drop", source.name, "--yes", "--with-data")
    run(config, *command, place="drop.publications_dropped")
    assert published(source) == []
    run(config, *command)
    assert source.rows("select from pg_event_trigger where evtname like 'pgrepl%'") == []
    assert target.value("select to_regnamespace('replication') is null")
