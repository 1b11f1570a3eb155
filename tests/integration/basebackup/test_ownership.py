"""Each source's schemas on the target belong to a role of their own, where there can be one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgrepl.basebackup.report import CopyOptions, CopyReport
from pgrepl.basebackup.run import copy_source
from pgrepl.config.dsn import Dsn
from pgrepl.config.model import Config, TargetConfig
from pgrepl.doctor import Status, examine
from pgrepl.drop import drop_source
from pgrepl.errors import TargetError
from tests.support.database import Database
from tests.support.observing.patient import ORIGIN_FUNCTIONS
from tests.support.running.copying import Recorder, has_slot, make_config

OBJECTS = (
    "create schema app",
    "create type app.mood as enum ('sad', 'happy')",
    "create domain app.price as numeric check (value >= 0)",
    "create type app.span as range (subtype = float8)",
    "create type app.pair as (a int, b int)",
    "create sequence app.free",
    'create table app."a Table" (id serial primary key, m app.mood, p app.price, s app.span)',
    'alter table app."a Table" add c app.pair, add i int generated always as identity',
    'create statistics app.stats on id, i from app."a Table"',
    "create table app.parts (id int primary key) partition by range (id)",
    "create table app.part_1 partition of app.parts for values from (0) to (9)",
    'create view app.seen as select id from app."a Table"',
)


@pytest.fixture
def target(bare_target: Database) -> Database:
    """Return a target where the role makes all there is itself."""
    return bare_target


@pytest.fixture
def config(source: Database, target: Database, tmp_path: Path) -> Iterator[Config]:
    """Return a configuration whose role on the target has what doctor asks for, and no more."""
    role = f"{target.name}_role"
    source.execute(*OBJECTS)
    target.execute(
        f"create role {role} login",
        f"grant create on database {target.name} to {role}",
        f"grant set on parameter session_replication_role to {role}",
        ORIGIN_FUNCTIONS.replace("ROLE", role),
    )
    made = make_config(target, source)
    path = tmp_path / "pgrepl.toml"
    path.touch()
    yield replace(made, path=path, target=TargetConfig(dsn=Dsn(target.dsn(user=role))))
    target.execute(f"drop owned by {role}", f"drop role {role}")


def copy(config: Config) -> CopyReport:
    (source,) = config.sources.values()
    options = CopyOptions(is_schema_only=True, with_views=True)
    return copy_source(config, source, options, Recorder())


def owners(target: Database, schema: str) -> set[str]:
    """Return who owns anything in a schema, and it."""
    return {
        name
        for (name,) in target.rows(
            "select pg_get_userbyid(owner) from ("
            " select nspowner, oid from pg_namespace union all"
            " select relowner, relnamespace from pg_class union all"
            " select typowner, typnamespace from pg_type union all"
            # The constructors of a range are the bootstrap superuser's, whoever makes it.
            " select proowner, pronamespace from pg_proc where proowner <> 10 union all"
            " select stxowner, stxnamespace from pg_statistic_ext) o (owner, namespace)"
            f" where namespace = '{schema}'::regnamespace"
        )
    }


def finding(config: Config):
    examinations = examine(config, list(config.sources.values()), os.environ, spark=False)
    (found,) = (
        finding
        for examination in examinations
        for finding in examination.findings
        if finding.check == "schema-owners"
    )
    return found


@pytest.mark.parametrize("power", ["superuser", "createrole"])
def test_who_may_make_roles_makes_one_and_drops_it_with_the_copies(config, source, target, power):
    role, schema = f"{target.name}_role", f"{source.name}_app"
    target.execute(f"alter role {role} {power}")
    assert finding(config).status is Status.OK
    copy(config)
    assert owners(target, schema) == {f"pgrepl_{source.name}"}
    assert finding(config).status is Status.OK
    ((login, member),) = target.rows(
        f"select rolcanlogin, pg_has_role('{role}', oid, 'MEMBER') from pg_roles"
        f" where rolname = 'pgrepl_{source.name}'"
    )
    assert (login, member) == (False, True)
    report = drop_source(config, config.sources[source.name], with_data=True)
    removed = {(item.kind, item.name) for item in report.items if item.outcome == "removed"}
    assert ("role", f"pgrepl_{source.name}") in removed
    assert not target.rows(f"select from pg_roles where rolname = 'pgrepl_{source.name}'")


def test_without_the_right_to_make_roles_the_copy_is_as_ever_and_doctor_offers_one(
    config, source, target
):
    role, schema = f"{target.name}_role", f"{source.name}_app"
    copy(config)
    assert owners(target, schema) == {role}
    target.execute(f"grant select on all tables in schema {schema} to pg_monitor")
    offered = finding(config)
    assert offered.status is Status.WARNING
    assert offered.is_in_script
    target.execute(*offered.remedy.sql)
    assert owners(target, schema) == {f"pgrepl_{source.name}"}
    assert finding(config).status is Status.OK
    # Readers read on.
    assert target.value(f"select has_table_privilege('pg_monitor', '{schema}.parts', 'select')")
    # It is the DBA's to drop.
    report = drop_source(config, config.sources[source.name], with_data=True)
    (kept,) = (item for item in report.items if item.kind == "role")
    assert f'DROP ROLE "pgrepl_{source.name}"' in (kept.reason or "")
    assert target.value(f"select to_regnamespace('{schema}') is null")
    # It can be used again.
    copy(config)
    assert owners(target, schema) == {f"pgrepl_{source.name}"}
    drop_source(config, config.sources[source.name], with_data=True)
    target.execute(f"drop role pgrepl_{source.name}")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter role {role} login", "it can log in"),
        ("alter role {role} createdb", "it has attributes"),
        ("grant {role} to {other}", "it has other members"),
        ("grant {other} to {role}", "it is a member of another role"),
    ],
)
def test_role_of_somebody_else_is_refused_before_anything_is_made(
    config, source, target, statement, reason
):
    role, other = f"pgrepl_{source.name}", f"{source.name}_other"
    target.execute(
        f"create role {role}",
        f"create role {other}",
        statement.format(role=role, other=other),
    )
    assert finding(config).status is Status.FAILURE
    with pytest.raises(TargetError, match=reason) as caught:
        copy(config)
    assert 'owner = "..."' in (caught.value.hint or "")
    assert not has_slot(source)
    assert target.value(f"select to_regnamespace('{source.name}_app') is null")
    named = replace(config.sources[source.name], owner=f"{role} 2")
    config = replace(config, sources={source.name: named})
    target.execute(f"alter role {target.name}_role createrole")
    copy(config)
    assert owners(target, f"{source.name}_app") == {f"{role} 2"}
    drop_source(config, named, with_data=True)
    target.execute(f"drop role {role}, {other}")


def test_role_that_owns_something_else_stays(config, source, target):
    role = f"pgrepl_{source.name}"
    target.execute(f"alter role {target.name}_role superuser")
    copy(config)
    target.execute("create table public.mine (id int)", f"alter table public.mine owner to {role}")
    report = drop_source(config, config.sources[source.name], with_data=True)
    (kept,) = (item for item in report.items if item.kind == "role")
    assert (kept.outcome, kept.name) == ("kept", role)
    target.execute("drop table public.mine", f"drop role {role}")


def test_role_that_pgrepl_runs_as_owns_as_ever(config, source, target):
    named = replace(config.sources[source.name], owner=f"{target.name}_role")
    config = replace(config, sources={source.name: named})
    copy(config)
    assert owners(target, f"{source.name}_app") == {f"{target.name}_role"}
    found = finding(config)
    assert found.status is Status.WARNING
    assert "owner =" in json.dumps(found.remedy.then)
