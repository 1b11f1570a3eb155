"""A spool that waits to be replayed, made once; each test replays a clone of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from pgrepl import failpoint
from pgrepl.config.dsn import Side
from pgrepl.ddl_capture import Applier
from pgrepl.postgres.connect import Connection, connect
from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.serial.transaction import SerialTransaction
from pgrepl.replayer.session import open_session
from pgrepl.replayer.shard.task import ShardTask
from pgrepl.replayer.source_queue import SourceWork, Work, shard_tasks
from pgrepl.store.progress.shard_progress import begin_progress
from pgrepl.store.sources import find_source
from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.running.pipeline import QUICK, Pipeline

#: They fall into all of four shards.
TABLES = ("a", "b", "c", "d", "g")
#: Transactions before the one with a TRUNCATE, and after it.
BEFORE, BEHIND = 6, 2
TRUNCATE = "truncate g; insert into g values (1, 1, 'new'); update a set note = 't'"


@contextmanager
def make_backlog(source_cluster: Cluster, target_cluster: Cluster) -> Iterator[Pipeline]:
    source = Database(source_cluster, "backlog")
    target = Database(target_cluster, "backlog_target")
    for database in (source, target):
        database.cluster.create_database(database.name)
    try:
        for name in TABLES:
            source.execute(
                f"create table {name} (id int primary key, n int not null, note text)",
                f"insert into {name} select g, g, 'old' from generate_series(1, 40) g",
            )
        pipeline = Pipeline(source, target)
        pipeline.copy()
        transactions = [_transaction(number) for number in range(BEFORE + BEHIND)]
        transactions.insert(BEFORE, TRUNCATE)
        for transaction in transactions:
            source.execute(transaction)
            # Received one by one, each is a segment of its own.
            pipeline.receive()
        yield pipeline
    finally:
        source.drop()
        target.drop()


def _transaction(number: int) -> str:
    return ";".join(
        f"update {name} set n = n + 1 where id % 3 = {number % 3};"
        f"insert into {name} values ({100 + number}, {number}, 'new {number}');"
        f"update {name} set id = {500 + number} where id = {number + 1};"
        f"delete from {name} where id = {20 + number}"
        for name in TABLES
    )


@contextmanager
def control(pipeline: Pipeline) -> Iterator[Connection]:
    with closing(connect(pipeline.target.endpoint(Side.TARGET), "test")) as connection:
        yield connection


def plan(
    pipeline: Pipeline,
    settings: ReplaySettings = QUICK,
    staging_prefix: Callable[[int], str] | None = None,
) -> tuple[Work, list[ShardTask]]:
    """Plan the next batch as the replayer does, and the tasks for it."""
    config = pipeline.config
    with control(pipeline) as connection:
        source = find_source(connection, pipeline.source.name)
        assert source is not None
        begin_progress(connection, source.source_id, config.replay.shards)
        work = SourceWork(source).plan(connection, config.replay, settings)
    assert work is not None
    tasks = shard_tasks(work, config.target.endpoint, config.replay, settings, staging_prefix)
    return work, tasks


def run_serial(pipeline: Pipeline, work: Work, ddl: Applier) -> None:
    """Apply a batch of transactions that the driver applies alone, as the replayer does."""
    with open_session(pipeline.config.target.endpoint, QUICK) as connection:
        SerialTransaction(
            connection,
            work.source,
            work.batch,
            on_error="park",
            on_conflict="error",
            ddl_on_error="stop",
            ddl=ddl,
            settings=QUICK,
        ).run()


def die_at(place: str, act: Callable[[], object]) -> None:
    """Do something in a process of its own that is killed there."""
    pid = os.fork()
    if pid == 0:
        try:
            failpoint._armed = place
            act()
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"{place} was not reached"
    assert os.WTERMSIG(status) == signal.SIGKILL
