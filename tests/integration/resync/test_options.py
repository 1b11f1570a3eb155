"""Which tables are copied, how fast, and how that is cancelled."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from typing import Any

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import UsageError
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.report import CancelledError, ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder, copy, make_config, slot_of
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums, replay_slot
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables


def resync(target, source, *tables: str, **options) -> list[str]:
    config = make_config(target, source)
    chosen = ResyncOptions(tables=TableSelection.of(tables), **options)
    report = resync_tables(config, config.sources[source.name], chosen, Recorder())
    return sorted(table.name for table in report.tables)


def cancel(target, source, *tables: str) -> dict[tuple[str, str], str]:
    config = make_config(target, source)
    selection = TableSelection.of(tables)
    return dict(cancel_tables(config, config.sources[source.name], selection, 30))


def condition(target, table: str) -> Any:
    (row,) = target.rows(
        "select state, resync_reason, p.kind from replication.source_table"
        " left join replication.parked_table p using (source_id, schema_name, table_name)"
        f" where table_name = '{table}'"
    )
    return row


def test_only_marked_tables_are_copied_where_needed(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    assert resync(target, source, "*.*", is_where_needed=True) == []
    target.execute(
        "update replication.source_table set resync_reason = 'lost' where table_name = 'moves_1'",
        "insert into replication.resync_due select source_id, 'app', 'history', 'random()'"
        " from replication.source",
    )
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "--where-needed", "--json", "--config", config)
    done = run_pgrepl(*command)
    assert done.returncode == 0, done.stderr
    copied = [table["table"] for table in json.loads(done.stdout)["tables"]]
    assert copied == ["app.history", "app.moves_1"]
    assert resync(target, source, "*.*", is_where_needed=True) == []
    for wrong in (
        ("--all", "app.moves"),
        (),
        ("--all", "--way", "x"),
        ("--all", "--max-rate", "x"),
    ):
        assert run_pgrepl("resync", source.name, *wrong, "--config", config).returncode == 2


def test_rate_is_kept(source, target):
    make_tables(source)
    source.execute(
        "create table app.big as select g as id, repeat('x', 1000) as body"
        " from generate_series(1, 2000) g"
    )
    copy(target, source)
    begin = time.monotonic()
    resync(target, source, "app.big", max_rate=1024 * 1024, jobs=1)
    assert time.monotonic() - begin > 0.9


def test_cancelled_resync_leaves_the_table_as_it_was_and_its_changes_applied(
    source, target, tmp_path
):
    make_tables(source)
    copy(target, source)
    there = f"{source.name}_app"
    target.execute(
        "update replication.source_table set resync_reason = 'lost' where table_name = 'accounts'"
    )
    before = target.rows(
        "select start_lsn, start_snapshot from replication.source_table"
        " where table_name = 'accounts'"
    )
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.accounts", "--config", config)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": "resync.copied:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shown = run_pgrepl("status", "--details", "--config", config)
    # About how many there are is known once the source has analyzed the table.
    assert re.search("resync .whole. copied, 2,000( of about 2,000)? rows", shown.stdout)
    assert condition(target, "accounts") == ("copying", None, "resync")
    done = run_pgrepl(*command, "--cancel")
    assert (done.returncode, done.stdout) == (0, "cancelled: app.accounts\n"), done.stderr
    assert condition(target, "accounts") == ("ready", "lost", None)
    assert before == target.rows(
        "select start_lsn, start_snapshot from replication.source_table"
        " where table_name = 'accounts'"
    )
    assert target.rows("select relname from pg_class where relname ~ '^shadow_'") == []
    with pytest.raises(UsageError, match="no resync"):
        cancel(target, source, "*.*")
    source.execute("update app.accounts set note = 'later' where id = 1")
    replay_slot(source, target, slot_of(source), {"app": there})
    assert checksums(target, there) == checksums(source, "app")


def test_running_resync_of_a_new_table_is_cancelled_from_another_session(source, target):
    make_tables(source)
    copy(target, source)
    source.execute(
        "create table app.big (id integer primary key, body text) partition by range (id)",
        "create table app.big_1 partition of app.big default",
        "insert into app.big select g, repeat('x', 1000) from generate_series(1, 5000) g",
    )
    ended = threading.Event()

    def run() -> None:
        with pytest.raises(CancelledError):
            resync(target, source, "app.big", max_rate=100_000, jobs=1)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: target.rows("select from replication.resync where snapshot is not null"))
        assert cancel(target, source, "app.big*") == {("app", "big_1"): "cancelled"}
    finally:
        thread.join(60)
    assert ended.is_set()
    assert target.rows("select relname from pg_class where relname ~ '^pgrepl_shadow_'") == []
    assert target.rows("select from replication.source_table where table_name ~ 'big'") == []
    assert target.rows("select from replication.parked_table") == []


def test_table_that_the_patterns_lose_is_told_of_and_has_lost_its_changes(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    config = write_copy_config(tmp_path, source, target)
    all_of_it = config.read_text()
    # A partition goes by the name of its root.
    config.write_text(f'{all_of_it}exclude = ["app.history", "app.moves"]\n')
    command = (source.name, "--config", config)

    def status() -> tuple[dict[str, Any], set[str]]:
        (shown,) = json.loads(run_pgrepl("status", *command, "--json").stdout)["sources"]
        tables = {table["name"]: table for table in shown["tables"]["not_well"]}
        return tables, {problem["kind"] for problem in shown["problems"]}

    assert run_pgrepl("receive", *command, "--once").returncode == 0
    source.execute("delete from app.history where id % 2 = 0")
    assert run_pgrepl("receive", *command, "--once").returncode == 0
    tables, problems = status()
    assert set(tables) == {"app.history", "app.moves_0", "app.moves_1"}
    assert "stays as it was" in tables["app.history"]["resync_reason"]
    # That is as it should be.
    assert "resync" not in problems
    refused = run_pgrepl("resync", *command, "app.history")
    assert (refused.returncode, "do not take in app.history" in refused.stderr) == (2, True)
    done = run_pgrepl("resync", *command, "--where-needed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("passed over: app.history: the patterns do not take it in")
    # Taken in again, it is not right by itself.
    config.write_text(all_of_it)
    assert run_pgrepl("receive", *command, "--once").returncode == 50
    assert "resync" in status()[1]
    assert run_pgrepl("resync", *command, "--where-needed").returncode == 0
    assert "resync" not in status()[1]
    there = f"{source.name}_app"
    assert checksums(target, there)["history"] == checksums(source, "app")["history"]
