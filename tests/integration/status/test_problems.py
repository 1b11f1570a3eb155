"""What needs a hand is named, with the exit code of the side that needs it."""

from __future__ import annotations

import json
import socket
import time
from datetime import timedelta

import psycopg
import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import SchemaVersionError, TargetUnavailable
from pgrepl.status import read_status
from pgrepl.store.monitoring.overview import NEEDED_STEP, NEEDED_VERSION
from tests.support.observing.looking import apply_spool, look, problems
from tests.support.program import run_pgrepl
from tests.support.running.streaming import Streaming


def status_of(streaming: Streaming):
    config = load_config(streaming.config)
    return read_status(config, [config.source(streaming.name)])


def test_source_that_streams_has_no_problem(streaming):
    assert problems(streaming) == {}
    listed = run_pgrepl("parked", "list", "--config", streaming.config)
    assert (listed.returncode, listed.stdout) == (0, "no table is parked\n")
    assert status_of(streaming).exit_code == 0


def test_source_that_is_down_is_a_problem_and_the_rest_is_still_shown(stream_alone):
    streaming = stream_alone()
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    streaming.source.cluster.stop()
    found = look(streaming)
    streaming.source.cluster.start()
    (problem,) = found.problems
    assert (problem.kind, problem.exit_code) == ("source-down", 20)
    assert found.state == "unreachable"
    assert found.positions.source is found.positions.flushed.lag_bytes is None
    assert found.positions.applied.lag_s > 0
    assert found.target.row.change_count == 1


def test_source_that_says_nothing_is_not_waited_for(streaming):
    # A server that takes the connection and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        streaming.write_config(dsn=f"host=127.0.0.1 port={port} dbname=x connect_timeout=60")
        began_at = time.monotonic()
        assert problems(streaming) == {"source-down": 20}
        assert time.monotonic() - began_at < 40  # it would be 60


def test_target_that_is_down_is_an_error(stream_alone, make_cluster, make_database):
    streaming = stream_alone()
    cluster = make_cluster()
    streaming.target = make_database(cluster)
    streaming.write_config()
    cluster.stop()
    with pytest.raises(TargetUnavailable):
        look(streaming)
    cluster.start()


def test_source_that_was_never_copied_is_absent(streaming):
    streaming.target.execute("delete from replication.source")
    assert problems(streaming) == {"never-copied": 30}
    assert look(streaming).state == "absent"


def test_target_without_a_schema_knows_no_source(streaming, target_cluster, make_database):
    streaming.drop_origin()
    streaming.target = make_database(target_cluster, prefix="target")
    streaming.write_config()
    assert problems(streaming) == {"never-copied": 30}


@pytest.mark.parametrize("step", ["resync_due", NEEDED_STEP])
def test_schema_of_an_older_version_is_refused_with_what_to_do(streaming, step):
    ((number, *others),) = streaming.target.rows(
        f"delete from replication.schema_version where name = '{step}' returning version, name"
    )
    needed = f'status needs version {NEEDED_VERSION} and step "{NEEDED_STEP}"'
    with pytest.raises(SchemaVersionError, match=needed) as caught:
        look(streaming)
    assert "receive or replay" in (caught.value.hint or "")
    streaming.target.execute(
        f"insert into replication.schema_version values ({number}, '{others[0]}', 'test')"
    )


def test_copy_that_nobody_finishes_is_a_problem(streaming):
    streaming.target.execute(
        "update replication.source set state = 'copying'",
        "update replication.source_table set state = 'copying'",
    )
    assert problems(streaming) == {"copy-unfinished": 30}
    with psycopg.connect(streaming.target.dsn(application_name="pgrepl-basebackup")):
        found = look(streaming)
    assert (found.state, found.problems, found.positions) == ("copying", (), None)
    assert [table.name for table in found.target.tables] == ["public.t"]


def test_slot_that_is_gone_is_a_problem(streaming):
    streaming.source.execute(f"select pg_drop_replication_slot('{streaming.slot}')")
    assert problems(streaming) == {"slot-missing": 20}


def test_slot_that_was_read_by_somebody_else_is_a_problem(streaming):
    streaming.source.execute(
        "insert into t values (1)",
        f"select pg_replication_slot_advance('{streaming.slot}', pg_current_wal_lsn())",
    )
    assert problems(streaming) == {"gap": 20}


def test_slot_that_fell_behind_is_in_danger_and_then_lost(stream_alone):
    streaming = stream_alone({"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB"})
    source = streaming.source
    assert look(streaming).source.safe_bytes > 0
    switch = ("select pg_switch_wal()", "insert into t values (default)")
    source.execute("alter table t alter id add generated always as identity")
    while source.value("select wal_status from pg_replication_slots") in ("reserved", "extended"):
        source.execute(*switch)
    assert problems(streaming) == {"slot-in-danger": 20}
    while source.value("select wal_status from pg_replication_slots") != "lost":
        source.execute(*switch, "checkpoint")
    assert problems(streaming) == {"slot-lost": 20}


def test_another_server_in_the_place_of_the_source_is_a_problem(streaming):
    streaming.target.execute("update replication.source set system_identifier = 1")
    assert problems(streaming) == {"other-server": 20}


def test_another_timeline_is_a_problem(streaming):
    streaming.target.execute("update replication.source set timeline = 7")
    assert problems(streaming) == {"other-timeline": 20}


def test_configuration_with_another_slot_is_a_problem(streaming):
    streaming.write_config(slot="another")
    assert problems(streaming)["slot-renamed"] == 30


def test_origin_that_is_gone_is_a_problem(streaming):
    streaming.drop_origin()
    assert problems(streaming) == {"origin-missing": 30}


def test_origin_that_somebody_moved_is_a_problem(streaming):
    streaming.target.execute(
        f"select pg_replication_origin_advance('{streaming.slot}', 'FF/0'::pg_lsn)"
    )
    assert problems(streaming) == {"origin-moved": 40}


def test_spool_at_its_limit_is_a_problem(streaming):
    streaming.source.execute("insert into t select g, md5(g::text) from generate_series(1, 1000) g")
    streaming.receive_once()
    assert problems(streaming) == {}
    streaming.write_config(max_spool="1kB")
    assert problems(streaming) == {"spool-full": 40}


def test_table_that_lost_changes_is_a_problem(streaming):
    streaming.source.execute("create table bare (id int)", "insert into bare values (1)")
    streaming.source.execute("update bare set id = 2")
    streaming.receive_once(code=50)
    found = look(streaming)
    (problem,) = found.problems
    assert (problem.kind, problem.exit_code) == ("resync", 50)
    assert "public.bare" in problem.message
    (table,) = found.target.tables
    assert table.resync_reason


def test_parked_table_is_a_problem_with_its_changes(streaming):
    streaming.target.execute(
        "insert into replication.parked_table"
        " (source_id, schema_name, table_name, sqlstate, reason) values"
        f" ({streaming.source_id}, 'public', 't', '23505', 'unique_violation')",
        "insert into replication.parked_message select source_id, schema_name, table_name, 1, n, 0,"
        " '0/1', '0/2', now(), 21, '{}', 'wal2json', 'UTF8'"
        " from replication.parked_table, generate_series(1, 2) n",
    )
    found = look(streaming)
    (problem,) = found.problems
    assert (problem.kind, problem.exit_code) == ("parked", 50)
    assert "public.t" in problem.message
    assert "42 changes" in problem.message
    assert found.target.tables[0].parked_reason == "unique_violation"
    listed = run_pgrepl("parked", "list", "--json", "--config", streaming.config)
    assert (listed.returncode, listed.stderr) == (50, "")
    assert [table["change_count"] for table in json.loads(listed.stdout)] == [42]


def test_ddl_that_waits_for_a_person_is_a_problem_until_one_decided(streaming):
    streaming.target.execute(
        "insert into replication.ddl_pending"
        " (source_id, log_id, commit_lsn, commit_at, tag, role, error)"
        f" values ({streaming.source_id}, 1, '0/1', now(), 'CREATE TABLE', 'app', 'it exists')"
    )
    assert problems(streaming) == {"pending-ddl": 50}
    assert look(streaming).target.pending_ddl_count == 1
    streaming.target.execute("update replication.ddl_pending set decision = 'skip'")
    assert problems(streaming) == {}


@pytest.mark.parametrize(("stage", "code"), [("receive", 20), ("replay", 50)])
def test_last_error_of_a_stage_is_a_problem(streaming, stage, code):
    streaming.target.execute(
        "insert into replication.failure (source_id, stage, message, hint)"
        f" values ({streaming.source_id}, '{stage}', 'it broke', 'Fix it.')"
    )
    (problem,) = look(streaming).problems
    assert (problem.kind, problem.exit_code) == (f"{stage}-failed", code)
    assert (problem.message, problem.hint) == ("it broke", "Fix it.")


def test_rows_that_somebody_wrote_here_are_shown_but_no_problem(streaming):
    streaming.target.execute(
        "insert into replication.conflict (source_id, schema_name, table_name, missing_count)"
        f" values ({streaming.source_id}, 'public', 't', 3)"
    )
    found = look(streaming)
    assert found.problems == ()
    assert found.target.tables[0].missing_count == 3


def test_lag_over_what_is_allowed_is_a_problem(streaming):
    streaming.source.execute("insert into t values (1)")
    streaming.receive_once()
    (problem,) = look(streaming, timedelta(milliseconds=1)).problems
    assert (problem.kind, problem.exit_code) == ("lag", 70)
    assert look(streaming, timedelta(hours=1)).problems == ()
    apply_spool(streaming)
    assert look(streaming, timedelta(hours=1)).problems == ()


def test_problems_of_one_source_are_not_those_of_another(streaming, stream_from, make_database):
    source = make_database(streaming.source.cluster, prefix="source")
    source.execute("create table t (id int primary key)")
    crm = stream_from(source, name="crm")
    source.execute(f"select pg_drop_replication_slot('{crm.slot}')")
    assert problems(streaming) == {}
    assert problems(crm) == {"slot-missing": 20}
