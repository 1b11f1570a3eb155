"""Kill a basebackup where a failpoint stands, start it again, and compare."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.database import Database
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import copy, slot_of, state_of
from tests.support.running.replaying import checksums, replay_slot
from tests.support.workloads.workload import make_tables, writers


def write_copy_config(folder: Path, source: Database, target: Database) -> Path:
    more = '[spark]\nmaster = "local[2]"'
    return write_config(folder / "pgrepl.toml", target.dsn(), {source.name: source.dsn()}, more)


def kill_and_go_on(
    folder: Path, source: Database, target: Database, case: tuple[str, str, str]
) -> None:
    """``case``: where the run dies, the state that leaves, and how the next run calls itself."""
    place, state, outcome = case
    make_tables(source)
    with writers(source):
        killed = run_pgrepl(
            *("basebackup", source.name, "--config", write_copy_config(folder, source, target)),
            env={"PGREPL_FAILPOINT": f"basebackup.{place}:kill"},
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert state_of(target, source) == state
        report = copy(target, source)
    assert report.outcome == outcome
    assert state_of(target, source) == "streaming"
    replay_slot(source, target, slot_of(source), {"app": f"{source.name}_app"})
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")
    keys = "select conname from pg_constraint where connamespace = '{}'::regnamespace order by 1"
    assert target.rows(keys.format(f"{source.name}_app")) == source.rows(keys.format("app"))
