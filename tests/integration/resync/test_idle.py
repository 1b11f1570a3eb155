"""Nobody is waited for who has nothing to say: sources that are idle, vacuums of the target."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgrepl.config.dsn import Side
from pgrepl.postgres.connect import connect
from pgrepl.resync.chunked.watermarks import Watermarks
from pgrepl.throwaway.cluster import Cluster
from tests.integration.resync.test_readers import resync
from tests.support.machine.kept_sessions import hang_up
from tests.support.running.copying import copy
from tests.support.running.live import Live
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until

TABLE = "create table t (id int primary key, a int)"


@pytest.mark.parametrize("is_new", [False, True])
def test_replay_that_has_nothing_to_apply_is_not_waited_for(source, target, tmp_path, is_new):
    live = Live(source, target, tmp_path).begin(*([] if is_new else [TABLE]))
    source.execute(*([f"set search_path = app; {TABLE}"] if is_new else []))
    source.execute("insert into app.t select g, 0 from generate_series(1, 50) g")
    # Nothing is written on the source.
    source.execute(f"alter database {source.name} set default_transaction_read_only = on")
    live.follow()
    # A receiver that streams knows by a keepalive that nothing else is to come; replay has not yet
    # noted that it has nothing to apply before that.
    further = "received_lsn = received_lsn + 1e12::numeric"
    target.execute(f"update replication.receive_progress set {further}")
    live.resync("t", wait_s=1, request={"is_first": is_new})
    assert live.differences("t") == set()


def test_what_is_only_in_the_memory_of_the_source_is_not_waited_for(source):
    source.execute("create table t (id int primary key, a int)")
    endpoint = source.endpoint(Side.SOURCE)
    with psycopg.connect(source.dsn()) as writer, connect(endpoint, "test") as session:

        def is_kept() -> bool:
            watermarks = Watermarks()
            first = watermarks.take(session)
            # In the WAL, but not on disk: nobody sends it.
            writer.execute("insert into t select g, 1 from generate_series(100, 120) g")
            second = watermarks.take(session)
            writer.rollback()
            return second == first

        # Unless a transaction of another database ended in that moment.
        wait_until(is_kept)

        watermarks = Watermarks()
        before = watermarks.take(session)
        source.execute("insert into t values (2, 2)")
        after = watermarks.take(session)
        assert (after.lsn > before.lsn, after.snapshot != before.snapshot) == (True, True)


@pytest.fixture(scope="module")
def vacuuming_cluster(binaries) -> Iterator[Cluster]:
    """Return a server that looks for tables to vacuum all the time."""
    with Cluster(binaries=binaries, settings={"autovacuum_naptime": "1s"}) as cluster:
        yield cluster
        hang_up(cluster)


@pytest.mark.soak
def test_autovacuum_gives_way(source, vacuuming_cluster, make_database):
    vacuumed = make_database(vacuuming_cluster, prefix="target")
    source.execute("create schema app; create table app.items (id int primary key, a int)")
    source.execute("insert into app.items select g, 0 from generate_series(1, 20000) g")
    copy(vacuumed, source)
    items = f"{source.name}_app.items"
    vacuumed.execute(
        f"alter table {items} set (autovacuum_vacuum_cost_delay = 100,"
        " autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1)",
        f"update {items} set a = 1",
    )
    wait_until(lambda: vacuumed.value("select count(*) > 0 from pg_stat_progress_vacuum"))
    resync(vacuumed, source, "app.items", wait_s=20)
    assert checksums(vacuumed, f"{source.name}_app") == checksums(source, "app")
