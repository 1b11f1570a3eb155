"""The source crashes and loses a transaction that a copy has seen: it is in no copy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from tests.support.database import Database
from tests.support.machine.kept_sessions import hang_up
from tests.support.program import start_pgrepl
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.waiting import wait_until

TABLES = """
create schema app;
create table app.t (id int primary key, n int);
insert into app.t select g, g from generate_series(1, 50) g;
"""
NEW = "create table app.added as select * from app.t"
KEY = "alter table app.added add primary key (id)"
WRITER = "select pid from pg_stat_activity where backend_type = 'walwriter'"
LOOKS = """
select pid from pg_stat_activity
 where application_name like 'pgrepl%' and query like '%pg_current_wal_flush_lsn%'
"""
CASES = [
    ("app.t", "whole", "copied"),
    ("app.t", "chunked", "chunk_placed"),
    ("app.added", "whole", "copied"),
    ("app.added", "chunked", "chunk_placed"),
]


@pytest.fixture(scope="module")
def lazy_cluster(binaries) -> Iterator[Cluster]:
    """Return a server that leaves commits which nobody waits for in its memory for long."""
    settings = {**LOGICAL_DECODING, "wal_writer_delay": "10s", "autovacuum": "off"}
    with Cluster(binaries=binaries, settings=settings) as cluster:
        yield cluster
        hang_up(cluster)


def lose_last_commits(cluster: Cluster, writer: int) -> None:
    """Have the server crash, and come up again without what its WAL writer has not written."""
    os.kill(writer, signal.SIGKILL)

    def is_up_again() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(cluster.dsn()) as connection:
            found = connection.execute(WRITER).fetchone()
            return found is not None and found != (writer,)
        return False

    hang_up(cluster)
    wait_until(is_up_again)


@pytest.fixture
def lazy(lazy_cluster: Cluster, make_database: Callable[..., Database]) -> Database:
    return make_database(lazy_cluster, prefix="source")


@pytest.mark.parametrize("case", CASES)
def test_transaction_that_a_crash_undoes_is_in_no_copy(lazy, target, tmp_path, case):
    source, (table, way, place) = lazy, case
    source.execute(TABLES)
    pipeline = Pipeline(source, target, tables=["app.*"])
    pipeline.copy()
    if table == "app.added":
        source.execute(NEW, KEY)
    pipeline.apply(ALONE)
    config = write_copy_config(tmp_path, source, target)
    command: Any = ("resync", source.name, table, "--way", way, "--config", config)
    writer = source.value(WRITER)
    # It stands still from here on: what it would write depends on the moment.
    os.kill(writer, signal.SIGSTOP)
    with source.connect() as connection:
        connection.execute("set synchronous_commit = off")
        connection.execute(f"insert into {table} values (1000, 1000)".encode())
    with (tmp_path / "output").open("wb") as sink:
        env = {"PGREPL_FAILPOINT": f"resync.{place}:kill"}
        process = start_pgrepl(*command, env=env, sink=sink)

        def is_waiting() -> bool:
            return process.poll() is not None or bool(source.rows(LOOKS))

        wait_until(is_waiting)
        lose_last_commits(source.cluster, writer)
        process.wait()
    assert source.value(f"select count(*) from {table}") == 50
    source.execute(f"insert into {table} values (1001, 1001)")
    with (tmp_path / "output").open("wb") as sink:
        process = start_pgrepl(*command, env={}, sink=sink)
        while process.poll() is None:
            pipeline.receive()
            pipeline.replay(ALONE)
    assert process.wait() == 0, (tmp_path / "output").read_text()
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
