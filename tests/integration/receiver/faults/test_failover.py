"""A source that went on as another timeline: received on if it has all that was received."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Side
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import connect
from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from pgrepl.throwaway.unprivileged import server_account
from tests.support.database import Database
from tests.support.machine.fork_server import CHUNK_ROWS
from tests.support.machine.kept_sessions import hang_up
from tests.support.program import run_pgrepl
from tests.support.running.live import Live
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.waiting import wait_until

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)

#: From this version on a slot can be kept on standbys too.
FAILOVER_VERSION = 170000


@pytest.fixture(scope="module")
def cluster(binaries) -> Iterator[Cluster]:
    with Cluster(binaries=binaries, settings=LOGICAL_DECODING) as cluster:
        yield cluster


@pytest.fixture
def pipeline(cluster: Cluster, target, make_database: Callable[..., Database]) -> Pipeline:
    source = make_database(cluster, prefix="source")
    source.execute("create table t (id int primary key)", "insert into t values (1)")
    made = Pipeline(source, target)
    made.copy()
    return made


@pytest.fixture
def live(
    cluster: Cluster, target: Database, make_database: Callable[..., Database], tmp_path: Path
) -> Live:
    live = Live(make_database(cluster, prefix="source"), target, tmp_path)
    live.begin("create table t (id int primary key, a int)")
    live.source.execute("insert into app.t select g, 0 from generate_series(1, 100) g")
    live.follow()
    return live


def promote(source: Database) -> None:
    """End the timeline, as a standby does that is promoted; slots stay, as on one that has them."""
    source.cluster.stop()
    begin_timeline(source)


def begin_timeline(source: Database) -> None:
    cluster = source.cluster
    mark = cluster.data / "recovery.signal"
    mark.touch()
    server_account().own(mark)
    cluster.configure({"restore_command": "false"})
    cluster.start()
    wait_until(lambda: not source.value("select pg_is_in_recovery()"))


@contextmanager
def losing(source: Database) -> Iterator[None]:
    """Fail over to a standby that has nothing of what is written in the block."""
    cluster = source.cluster
    hang_up(cluster)
    cluster.stop()
    standby = cluster.data.with_name("standby")
    subprocess.run(["cp", "-a", cluster.data, standby], check=True)
    cluster.start()
    yield
    hang_up(cluster)
    cluster.stop("immediate")
    shutil.rmtree(cluster.data)
    standby.rename(cluster.data)
    begin_timeline(source)


def timeline(pipeline: Pipeline) -> int:
    return int(pipeline.target.value("select timeline from replication.source"))


def test_failover_that_lost_nothing_goes_on(pipeline, caplog):
    before = timeline(pipeline)
    pipeline.source.execute("insert into t values (2)")
    pipeline.receive()
    promote(pipeline.source)
    pipeline.source.execute("insert into t values (3)")
    pipeline.receive()
    assert "failed over to timeline" in caplog.text
    assert timeline(pipeline) == before + 1
    result = pipeline.replay(ALONE)
    assert (result.error, pipeline.differences()) == (None, [])
    pipeline.source.execute("insert into t values (4)")
    pipeline.apply(ALONE)
    assert pipeline.differences() == []


def test_copy_that_was_made_after_the_end_of_the_timeline_is_marked(pipeline):
    promote(pipeline.source)
    pipeline.target.execute("update replication.source_table set start_lsn = 'F/0'")
    pipeline.receive()
    assert "timeline" in pipeline.target.value("select resync_reason from replication.source_table")


@pytest.mark.parametrize(
    ("way", "place"), [("whole", "resync.copied"), ("chunked", "resync.chunk_placed")]
)
def test_rows_of_a_resync_that_the_new_primary_has_not_are_copied_again(live, way, place):
    source, target = live.source, live.target
    resync = ("resync", "shop", "--config", live.config_path)
    with losing(source):
        # Nobody received that, but the resync reads it.
        source.execute("insert into app.t values (0, 0)", "update app.t set a = 1 where id < 50")
        dead = run_pgrepl(
            *(*resync, "app.t", "--way", way),
            env={"PGREPL_FAILPOINT": f"{place}:kill", CHUNK_ROWS: "30"},
        )
        assert dead.returncode == -signal.SIGKILL, dead.stderr
    # The new primary gives the same numbers to other transactions.
    source.execute("insert into app.t values (-1, 0)", "update app.t set a = 2 where id < 25")
    with live.streaming():
        done = run_pgrepl(*resync, "app.t")
        assert done.returncode == 0, done.stderr
        assert "timeline" in target.value("select resync_reason from replication.source_table")
        done = run_pgrepl(*resync, "--where-needed")
        assert done.returncode == 0, done.stderr
    assert live.differences("t") == set()
    assert target.rows("select from replication.source_table where resync_reason is not null") == []


def test_failover_that_lost_what_was_received_is_refused(pipeline):
    promote(pipeline.source)
    slot = pipeline.target.value("select slot from replication.source")
    # As if more had been received than the new primary got.
    pipeline.target.execute(
        f"select pg_replication_origin_advance('{slot}', 'F/0')",
        "update replication.source set consistent_point = 'F/0'",
        "update replication.receive_progress set received_lsn = 'F/0'",
    )
    with pytest.raises(SourceError, match=r"which ended at .* not all there"):
        pipeline.receive()


def test_slot_is_kept_on_standbys_where_the_server_can(pipeline):
    with pipeline.source.connect() as connection:
        is_able = connection.info.server_version >= FAILOVER_VERSION
    flags = "select (to_jsonb(s) ->> 'failover')::boolean from pg_replication_slots s"
    where = f" where database = '{pipeline.source.name}'"
    assert pipeline.source.value(flags + where) is (True if is_able else None)
    if is_able:
        with connect(pipeline.source.endpoint(Side.SOURCE), "test", is_replication=True) as one:
            slot = Identifier(f"pgrepl_{pipeline.source.name}")
            one.execute(SQL("ALTER_REPLICATION_SLOT {} (FAILOVER false)").format(slot))
        assert pipeline.source.value(flags + where) is False
        pipeline.receive()
        assert pipeline.source.value(flags + where) is True
