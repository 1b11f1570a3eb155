"""Removing a source as a role that may not do everything there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.config.file import load_config
from pgrepl.ddl_capture import install_script, read_status
from tests.integration.drop.test_drop import (
    capture_of,
    drop_by_program,
    make_streaming,
    origins,
    remaining,
)
from tests.support.database import Database
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import has_slot, slot_of


@pytest.fixture
def role(source: Database) -> Iterator[str]:
    """Return a role that may receive, and no more."""
    name = f"{source.name}_role"
    source.execute(f"create role {name} login replication")
    yield name
    source.execute(f"drop owned by {name}", f"drop role {name}")


def install_for(source: Database, role: str) -> None:
    for statements in install_script(role):
        source.execute(*(statement.as_string() for statement in statements))


def print_script(tmp_path, target: Database, source: Database, role: str) -> str:
    config = write_config(tmp_path / "p.toml", target.dsn(), {source.name: source.dsn(user=role)})
    done = run_pgrepl("drop", source.name, "--sql", "--config", config)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_capture_that_only_a_superuser_can_remove_is_switched_off(source, target, tmp_path, role):
    make_streaming(source, target, with_capture=False)
    install_for(source, role)
    dsn = source.dsn(user=role)
    done, report = drop_by_program(tmp_path, target.dsn(), source, "--yes", dsn=dsn)
    assert done.returncode == report["exit_code"] == 20
    assert "is switched off" in done.stderr
    assert f"pgrepl drop {source.name} --sql" in done.stderr
    # Of the source nothing is left that anybody could take for one.
    assert not has_slot(source)
    assert remaining(target, source.name) == {}
    config = load_config(write_config(tmp_path / "s.toml", target.dsn(), {source.name: dsn}))
    assert read_status(config.source(source.name)).state == "disabled"
    source.execute("create table unseen ()")
    assert source.value("select count(*) from pgrepl.ddl_log") == 0
    source.execute(print_script(tmp_path, target, source, role))
    assert capture_of(source) == []
    done, report = drop_by_program(tmp_path, target.dsn(), source, dsn=dsn)
    assert (done.returncode, report["removed"], report["kept"]) == (0, [], [])


@pytest.mark.parametrize("lacking", ["switch", "replication"])
def test_role_that_cannot_bring_it_to_an_end_touches_nothing(
    source, target, tmp_path, role, lacking
):
    make_streaming(source, target, with_capture=False)
    install_for(source, role)
    if lacking == "switch":
        # As of a capture that an older version installed.
        source.execute("drop function pgrepl.switch(boolean)")
    else:
        source.execute(f"alter role {role} noreplication")
    before = remaining(target, source.name)
    dsn = source.dsn(user=role)
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes", dsn=dsn)
    assert done.returncode == 20
    assert "nothing was touched" in done.stderr
    assert remaining(target, source.name) == before
    assert slot_of(source) in origins(target)
    assert has_slot(source)
    assert source.value("select count(*) from pg_event_trigger where evtenabled = 'A'") == 8
    source.execute(print_script(tmp_path, target, source, role))
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes", dsn=dsn)
    assert done.returncode == 0, done.stderr
    assert (has_slot(source), capture_of(source)) == (False, [])
    assert remaining(target, source.name) == {}


def test_open_transaction_with_ddl_makes_nobody_wait(source, target, tmp_path):
    make_streaming(source, target, with_capture=False)
    install_for(source, "postgres")
    with source.connect() as other:
        other.execute("begin")
        other.execute("create table mine ()")
        done, report = drop_by_program(tmp_path, target.dsn(), source, "--yes")
        assert done.returncode == report["exit_code"] == 20
        assert "still open" in done.stderr
        assert capture_of(source) == ["pgrepl"]
        source.execute("create table theirs ()")
        other.execute("commit")
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert (done.returncode, capture_of(source)) == (0, [])
