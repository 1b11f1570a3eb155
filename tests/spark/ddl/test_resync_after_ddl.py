"""Tables whose rows DDL left different are copied again, and nobody touches anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from pgrepl.config.dsn import Dsn
from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.errors import TargetError, TargetUnavailable
from pgrepl.postgres.advisory_locks import copy_lock, take_lock
from pgrepl.receiver import Receiver
from pgrepl.replayer import Replayer
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.resync import Resyncer
from pgrepl.resync.release import apply_waiting
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.program import run_pgrepl
from tests.support.running.backlog import control, die_at
from tests.support.running.copying import Recorder
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables, writers

pytestmark = pytest.mark.usefixtures("one_spark_session")

RANDOM = "alter table app.accounts add column luck double precision not null default random()"
#: The values of each are the source's secret; the last one's table has partitions.
SECRETS = (
    RANDOM,
    "alter table app.history add column at timestamptz default clock_timestamp()",
    "alter table app.moves add column number serial",
)
#: Code of the source that gives rows their values: it counts its calls, and must not run here.
CODE = (
    (
        "create function app.secret(numeric) returns numeric immutable language plpgsql as"
        " 'begin perform nextval(''app.calls''); return $1 * 3; end'"
    ),
    "alter table app.accounts alter balance type numeric using app.secret(balance)",
    "alter table app.accounts add column code numeric not null default app.secret(7)",
    "alter table app.history add column g numeric generated always as (app.secret(delta)) stored",
    "alter table app.history add check (app.secret(delta) is not null)",
    "alter table app.moves add column code numeric default app.secret(3)",
)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    """Return a copied source whose DDL is captured; a resync follows its DDL."""
    made = Pipeline(source, target)
    make_tables(source)
    made.ddl = Applier(made.config)
    install(made.config.sources[source.name])
    made.copy()
    made.resync = make_resyncer(made)
    return made


def make_resyncer(pipeline: Pipeline, **parameters: str) -> Resyncer:
    """Return one that has no patience with failures; parameters are those of the source's DSN."""
    name = pipeline.source.name
    dsn = Dsn(pipeline.source.dsn(**parameters))
    config = pipeline.config
    source = replace(config.sources[name], dsn=dsn)
    config = replace(config, sources={name: source})
    return Resyncer(config, interval_s=0.0, backoff_s=0.0)


def due(pipeline: Pipeline) -> dict[str, int]:
    return dict(
        pipeline.target.rows("select table_name::text, attempt_count from replication.resync_due")
    )


@contextmanager
def running(pipeline: Pipeline) -> Iterator[None]:
    """Receive and replay as services do, until the block ends."""
    config = pipeline.config
    assert pipeline.ddl is not None
    receiver = Receiver(config, config.sources[pipeline.source.name])
    replayer = Replayer(
        config,
        pipeline.ddl,
        replace(QUICK, pace_s=0.05, idle_s=0.2),
        resync=make_resyncer(pipeline),
    )
    services = [threading.Thread(target=receiver.run), threading.Thread(target=replayer.run)]
    for service in services:
        service.start()
    try:
        yield
    finally:
        receiver.stop()
        replayer.stop()
        for service in services:
            service.join()


def is_mended(pipeline: Pipeline, ddl: Sequence[str] = SECRETS) -> bool:
    """Whether all DDL has arrived and nothing waits because of it."""
    return bool(
        pipeline.target.value(
            f"select count(*) = {len(ddl)} from replication.ddl_history"
            " where not exists (select from replication.resync_due)"
            " and not exists (select from replication.parked_table)"
        )
    )


def test_values_that_only_the_source_knows_arrive_under_writers(pipeline):
    with running(pipeline), writers(pipeline.source):
        for ddl in SECRETS:
            pipeline.source.execute(ddl)
        wait_until(lambda: is_mended(pipeline), 60)
    pipeline.apply()
    assert pipeline.differences("app") == []
    assert pipeline.target.value(
        "select bool_and(resync_reason is null) from replication.source_table"
    )


@pytest.mark.soak
def test_values_that_code_of_the_source_gives_arrive_under_writers(pipeline):
    for database, schema in ((pipeline.source, "app"), (pipeline.target, pipeline.schema("app"))):
        # An older version brought the function, which the source has yet to make.
        database.execute(f"create sequence if not exists {schema}.calls")
    pipeline.target.execute(CODE[0].replace("app.", f"{pipeline.schema('app')}."))
    with running(pipeline), writers(pipeline.source):
        for ddl in CODE:
            pipeline.source.execute(ddl)
        wait_until(lambda: is_mended(pipeline, (*CODE, "the sequence")), 120)
    pipeline.apply()
    assert pipeline.differences("app") == []
    assert not pipeline.target.value(f"select is_called from {pipeline.schema('app')}.calls")
    kinds = pipeline.target.rows("select kind from replication.skipped_code order by 1")
    assert [kind for (kind,) in kinds] == ["check", "default", "default", "generated column"]
    assert pipeline.parked() == []


@pytest.mark.parametrize(
    "place",
    [
        "resync.parked",
        pytest.param("resync.planned", marks=pytest.mark.soak),
        pytest.param("resync.copied", marks=pytest.mark.soak),
    ],
)
def test_resync_that_was_killed_is_taken_up_at_the_next_start(pipeline, place):
    pipeline.source.execute(RANDOM)
    pipeline.receive()
    die_at(place, pipeline.replay)
    assert due(pipeline) == {"accounts": 0}
    # More DDL on the table must not wait for a resync that itself would wait for the DDL.
    pipeline.source.execute(
        "update app.accounts set balance = 5 where id = 1",
        "alter table app.accounts add column club text default 'none'",
        "update app.accounts set club = 'gold' where id = 2",
        "alter table app.accounts rename column note to remark",
    )
    pipeline.apply()
    assert due(pipeline) == {}
    assert pipeline.differences("app") == []


def test_resync_that_fails_is_tried_again_and_told_of(pipeline, tmp_path):
    role = f"reader_{pipeline.source.name}"
    pipeline.source.execute(f"create role {role} login replication")
    try:
        pipeline.resync = make_resyncer(pipeline, user=role)
        pipeline.source.execute(RANDOM)
        pipeline.receive()
        result = pipeline.replay()
        assert (result.error, result.due) == (None, [("app", "accounts")])
        assert due(pipeline) == {"accounts": 1}
        config = write_copy_config(tmp_path, pipeline.source, pipeline.target)
        shown = run_pgrepl("status", "--details", "--config", config)
        assert shown.returncode == 50
        assert "may not read it" in shown.stdout + shown.stderr
        assert "replay copies it again, failed 1 time" in shown.stdout
        pipeline.source.execute(
            f"grant usage on schema app to {role}", f"grant select on app.accounts to {role}"
        )
        pipeline.apply()
        assert due(pipeline) == {}
        assert pipeline.differences("app") == []
    finally:
        pipeline.source.execute(f"drop owned by {role}", f"drop role {role}")


def test_resync_waits_for_one_that_a_person_runs(pipeline):
    pipeline.source.execute(RANDOM)
    pipeline.receive()
    with control(pipeline) as person:
        take_lock(person, copy_lock(pipeline.source.name))
        assert pipeline.replay().parked == []
        assert due(pipeline) == {"accounts": 0}
    pipeline.apply()
    assert due(pipeline) == {}
    assert pipeline.differences("app") == []


def test_switched_off_the_table_is_copied_by_hand(pipeline, tmp_path):
    pipeline.resync = None
    pipeline.source.execute(RANDOM)
    pipeline.apply()
    assert pipeline.differences("app") == ["accounts"]
    assert due(pipeline) == {"accounts": 0}
    config = write_copy_config(tmp_path, pipeline.source, pipeline.target)
    done = run_pgrepl("resync", pipeline.source.name, "app.accounts", "--config", config)
    assert done.returncode == 0, done.stderr
    assert due(pipeline) == {}
    assert pipeline.differences("app") == []


def test_table_that_is_parked_for_another_reason_is_left_to_a_person(pipeline):
    source_id = pipeline.target.value("select source_id from replication.source")
    pipeline.source.execute(RANDOM)
    pipeline.resync = None
    pipeline.apply()
    pipeline.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
        f" values ({source_id}, 'app', 'accounts', 'it broke')"
    )
    pipeline.resync = make_resyncer(pipeline)
    assert pipeline.replay().parked == [("app", "accounts")]
    assert due(pipeline) == {"accounts": 0}
    pipeline.target.execute("delete from replication.parked_table")
    pipeline.apply()
    assert pipeline.differences("app") == []


def resync_by_hand(pipeline: Pipeline, *, meanwhile=lambda: None) -> None:
    """Copy accounts; ``meanwhile`` is called when the snapshot is taken, before the rows go."""
    config = pipeline.config
    options = ResyncOptions(tables=TableSelection.of(["app.accounts"]), wait_s=30)
    source = config.sources[pipeline.source.name]

    def go_on(_: object) -> None:
        with closing(open_session(config.target.endpoint, ReplaySettings())) as connection:
            apply_waiting(config, connection, source.name, [("app", "accounts")])

    resync_tables(config, source, options, Recorder({"data": meanwhile}), go_on)


#: DDL on the table that is copied and on another one, with rows among it. What locks out readers of
#: the first one would wait on the source.
BESIDE = (
    "update app.accounts set balance = 7 where id = 1",
    "create unique index twice on app.accounts (id, balance)",
    "alter table app.accounts alter balance set statistics 50",
    "alter table app.history add column late int default 3",
    "update app.accounts set balance = 8 where id = 3",
)


def found(pipeline: Pipeline) -> tuple[bool, bool]:
    """Whether the target has the new index of one table, and the new column of the other."""
    schema = pipeline.schema("app")
    return (
        pipeline.target.value(f"select to_regclass('{schema}.twice') is not null"),
        pipeline.target.value(
            "select count(*) = 1 from information_schema.columns where column_name = 'late'"
            f" and table_schema = '{schema}'"
        ),
    )


def test_ddl_on_a_table_that_is_being_copied_waits_with_it_and_the_rest_goes_on(pipeline):
    def change() -> None:
        pipeline.source.execute(*BESIDE)
        pipeline.receive()
        result = pipeline.replay()
        assert (result.error, result.waiting_ddl) == (None, 0)
        assert found(pipeline) == (False, True)

    resync_by_hand(pipeline, meanwhile=change)
    # What waited was applied with the changes that waited.
    assert found(pipeline) == (True, True)
    assert pipeline.target.value("select count(*) from replication.ddl_pending") == 0
    pipeline.apply()
    assert pipeline.differences("app") == []


def test_ddl_that_waits_for_a_copy_goes_on_when_that_is_broken_off(pipeline):
    def change() -> None:
        pipeline.source.execute(*BESIDE)
        pipeline.receive()
        assert pipeline.replay().error is None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resync_by_hand(pipeline, meanwhile=change)
    pipeline.source.execute("alter table app.accounts rename column note to remark")
    pipeline.apply()
    assert found(pipeline) == (True, True)
    assert pipeline.target.value("select count(*) from replication.ddl_pending") == 0
    assert due(pipeline) == {}
    assert pipeline.differences("app") == []


def test_source_waits_for_the_copy_where_ddl_is_to_stop_it(pipeline):
    pipeline.ddl_on_error = "stop"
    pipeline.ddl = Applier(pipeline.config)
    outcomes = []

    def change() -> None:
        pipeline.source.execute(*BESIDE)
        pipeline.receive()
        outcomes.append(pipeline.replay())

    resync_by_hand(pipeline, meanwhile=change)
    (outcome,) = outcomes
    assert isinstance(outcome.error, TargetUnavailable)
    assert "waits for its copy" in outcome.error.message
    pipeline.apply()
    assert pipeline.differences("app") == []


def test_ddl_from_before_a_resync_is_applied_though_the_copy_saw_it(pipeline):
    pipeline.source.execute("alter table app.accounts add constraint known check (balance >= 0)")
    resync_by_hand(pipeline)
    pipeline.apply()
    found = pipeline.target.rows("select tag, outcome from replication.ddl_history")
    assert found == [("ALTER TABLE", "applied")]
    assert due(pipeline) == {}
    assert pipeline.differences("app") == []


def test_rows_that_are_in_the_way_of_ddl_go_before_the_resync(pipeline):
    resync, pipeline.resync = pipeline.resync, None
    pipeline.source.execute(
        "alter table app.accounts add column code serial",
        "insert into app.accounts select 9000 + g, 0, 'late' from generate_series(1, 9) g",
    )
    pipeline.apply()
    accounts = f"{pipeline.schema('app')}.accounts"
    pipeline.target.execute(f"update {accounts} set code = 1")
    pipeline.source.execute("alter table app.accounts add unique (code)")
    pipeline.apply()
    assert pipeline.target.value(f"select count(*) from {accounts}") == 0
    pipeline.resync = resync
    pipeline.apply()
    assert pipeline.differences("app") == []


def test_change_that_fails_before_the_copy_parks_nothing_and_the_mark_follows_renames(pipeline):
    resync, pipeline.resync = pipeline.resync, None
    pipeline.source.execute(
        "create schema later",
        "alter table app.accounts add column code serial",
        "alter table app.accounts rename to clients",
        "alter table app.clients set schema later",
        "alter schema later rename to app2",
    )
    pipeline.apply()
    delete = f"delete from {pipeline.schema('app2')}.clients where id = 1"
    pipeline.target.execute("set session_replication_role = replica", delete)
    pipeline.source.execute("update app2.clients set balance = 5 where id = 1")
    pipeline.apply()
    rows = "select schema_name::text, table_name::text from replication."
    assert pipeline.target.rows(f"{rows}resync_due") == [("app2", "clients")]
    pipeline.resync = resync
    pipeline.apply()
    assert due(pipeline) == {}
    assert pipeline.differences("app2") == []
    assert pipeline.differences("app") == []


def test_resync_does_not_copy_another_table_that_took_the_name(pipeline):
    pipeline.source.execute(
        "alter table app.accounts rename to old",
        "create table app.accounts (like app.old including all)",
        "insert into app.accounts values (1, 5, 'new')",
    )
    with pytest.raises(TargetError, match="is another table on the source"):
        resync_by_hand(pipeline)
    pipeline.apply()
    assert pipeline.differences("app") == []
    resync_by_hand(pipeline)
    assert pipeline.differences("app") == []
