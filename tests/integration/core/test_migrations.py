"""The schema "replication" on a real target."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgrepl.config.dsn import Side
from pgrepl.errors import SchemaVersionError, TargetError
from pgrepl.postgres.connect import connect
from pgrepl.store import migrations
from pgrepl.store.migrations import Migration, known_migrations, migrate, read_version
from tests.support.database import Database
from tests.support.observing.invariants import broken_invariants
from tests.support.running.backlog import die_at

NEWEST = known_migrations()[-1].version


@pytest.fixture
def target(bare_target: Database) -> Database:
    """Return a target that the test migrates."""
    return bare_target


def migrate_target(target: Database, **parameters: str) -> int:
    endpoint = target.endpoint(Side.TARGET, **parameters)
    with connect(endpoint, "test") as connection:
        return migrate(connection, endpoint)


def test_first_run_takes_every_step_and_second_run_none(target):
    assert migrate_target(target) == len(known_migrations())
    assert migrate_target(target) == 0
    with target.connect() as connection:
        assert read_version(connection) == NEWEST


def test_each_step_is_recorded_with_its_version_and_name(target):
    migrate_target(target)
    rows = target.rows("select version, name from replication.schema_version order by version")
    assert rows == [(step.version, step.name) for step in known_migrations()]


def test_programs_that_start_at_once_take_turns(target):
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: migrate_target(target), range(4)))
    assert sum(counts) == len(known_migrations())


@pytest.mark.parametrize("place", ["target.before_migration_commit", "target.migrated"])
def test_killed_migration_is_finished_by_the_next(target, place):
    die_at(place, lambda: migrate_target(target))
    with target.connect() as connection:
        assert read_version(connection) == (1 if place == "target.migrated" else 0)
    migrate_target(target)
    rows = target.rows("select version from replication.schema_version order by version")
    assert rows == [(step.version,) for step in known_migrations()]
    assert broken_invariants(target) == []


def test_schema_newer_than_the_program_is_refused_and_left_alone(target):
    migrate_target(target)
    target.execute(
        "insert into replication.schema_version (version, name, pgrepl_version)"
        f" values ({NEWEST + 1}, 'from_the_future', '99')"
    )
    with pytest.raises(SchemaVersionError, match=f"has version {NEWEST + 1}") as caught:
        migrate_target(target)
    assert caught.value.exit_code == 30
    assert "Upgrade pgrepl" in (caught.value.hint or "")


def test_schema_of_somebody_else_is_refused_and_left_alone(target):
    target.execute("create schema replication", "create table replication.theirs ()")
    with pytest.raises(SchemaVersionError, match="pgrepl did not make"):
        migrate_target(target)
    assert target.value("select count(*) from pg_tables where schemaname = 'replication'") == 1


def test_step_that_fails_leaves_nothing_behind(target, monkeypatch):
    broken = known_migrations()[0]
    monkeypatch.setattr(
        "pgrepl.store.migrations.known_migrations",
        lambda: (type(broken)(1, "broken", broken.sql + "select 1 / 0;"),),
    )
    with pytest.raises(TargetError, match="division by zero"):
        migrate_target(target)
    assert target.value("select to_regnamespace('replication')") is None


def test_role_without_create_is_told_what_is_missing(target):
    target.execute("drop role if exists visitor", "create role visitor login")
    with pytest.raises(TargetError, match="permission denied for database") as caught:
        migrate_target(target, user="visitor")
    assert "pgrepl doctor" in (caught.value.hint or "")
    target.execute("drop role visitor")


def test_reading_the_version_of_an_empty_target_says_zero(target):
    with psycopg.connect(target.dsn()) as connection:
        assert read_version(connection) == 0


def test_step_with_a_lower_number_that_comes_later_still_runs(target, monkeypatch):
    first = known_migrations()[0]
    last = Migration(3, "last", "create table replication.last ()")
    late = Migration(2, "late", "create table replication.late ()")
    for steps, count in (((first, last), 2), ((first, late, last), 1), ((first, late, last), 0)):
        monkeypatch.setattr("pgrepl.store.migrations.known_migrations", lambda steps=steps: steps)
        assert migrate_target(target) == count
    assert target.value("select to_regclass('replication.late') is not null")


def test_privileges_on_the_view_of_the_spool_survive_its_change(target, monkeypatch):
    older = [step for step in known_migrations() if step.version < 12]
    monkeypatch.setattr(migrations, "known_migrations", lambda: older)
    migrate_target(target)
    target.execute("grant select on replication.messages to public")
    monkeypatch.undo()
    migrate_target(target)
    assert target.value(
        "select has_table_privilege('pg_monitor', 'replication.messages', 'select')"
    )


def test_parkings_of_the_version_before_get_the_kind_that_their_words_had(target, monkeypatch):
    older = [step for step in known_migrations() if step.version < 13]
    monkeypatch.setattr(migrations, "known_migrations", lambda: older)
    migrate_target(target)
    target.execute(
        "insert into replication.source (name, slot, dbname, system_identifier, timeline)"
        " values ('shop', 'pgrepl_shop', 'shop', 1, 1)",
        "insert into replication.parked_table"
        " (source_id, schema_name, table_name, reason, sqlstate, retry_count)"
        " select source_id, 'app', v.* from replication.source, (values"
        " ('a', 'resync', null, 0), ('b', 'resync: lost', null, 0), ('c', 'resync', '23505', 0),"
        " ('d', 'resync', null, 1), ('e', 'resyncable', null, 0), ('f', 'it broke', null, 0)) v",
    )
    monkeypatch.undo()
    migrate_target(target)
    kinds = target.rows("select table_name::text, kind from replication.parked_table order by 1")
    resync = [name for name, kind in kinds if kind == "resync"]
    failed = [name for name, kind in kinds if kind == "failed"]
    assert (resync, failed) == (["a", "b"], ["c", "d", "e", "f"])


def test_steps_fit_a_server_without_lz4(target):
    with target.connect() as connection, connection.transaction():
        for step in known_migrations():
            fitted = migrations.fit_to_server(step.sql, has_lz4=False)
            assert "compression lz4" not in fitted.replace("set compression lz4", "")
            connection.execute(fitted)
