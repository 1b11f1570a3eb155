"""Bindings under a replayer that is killed: none ever promises what the tables do not show."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import psycopg
import pytest

from pgrepl.lsn import Lsn
from tests.support.database import Database
from tests.support.program import run_pgrepl
from tests.support.running.receiving import stream_from
from tests.support.running.streaming import Streaming

__all__ = ["stream_from"]

#: Enough for both shards to have some, whatever the names hash to.
TABLES = [f"t{number}" for number in range(8)]
#: The newest binding and the rows of all tables, at once.
LOOK = (
    "select (select max(lsn)::text from replication.binding), "
    + ", ".join(f"array(select id from shop_public.{table})" for table in TABLES)
).encode()
#: Transactions between two kills.
COUNT = 6


class Observer:
    """Compares, in one snapshot after the other, the newest binding with what the tables show."""

    def __init__(self, target: Database, ends: dict[int, Lsn]) -> None:
        self.target = target
        #: The end of each source transaction.
        self.ends = ends
        self.seen: set[Lsn] = set()
        self.broken: list[str] = []
        self._is_over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _watch(self) -> None:
        with psycopg.connect(self.target.dsn()) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not self._is_over.wait(0.01):
                self._look(connection)
                connection.commit()

    def _look(self, connection: psycopg.Connection) -> None:
        ((bound, *shown),) = connection.execute(LOOK).fetchall()
        if bound is None:
            return
        lsn = Lsn.parse(bound)
        self.seen.add(lsn)
        promised = {number for number, end in tuple(self.ends.items()) if end <= lsn}
        for table, numbers in zip(TABLES, shown, strict=True):
            if not promised <= set(numbers):
                self.broken.append(f"{table} lacks {promised - set(numbers)} at {lsn}")


@pytest.mark.timeout(600)
def test_bindings_hold_while_replay_and_its_shards_are_killed(source, target, stream_from):
    create = [f"create table {{}}.{table} (id int primary key)" for table in TABLES]
    source.execute(*(statement.format("public") for statement in create))
    streaming: Streaming = stream_from(source)
    with streaming.config.open("a", encoding="utf-8") as file:
        file.write('[spark]\nmaster = "local[2]"\n[replay]\nshards = 2\n')
    target.execute(
        "create schema shop_public",
        f"insert into replication.target_schema values ('shop_public', {streaming.source_id},"
        " 'public')",
        *(statement.format("shop_public") for statement in create),
    )
    ends: dict[int, Lsn] = {}
    transactions: set[tuple[Lsn, Lsn]] = set()

    def write_and_receive() -> None:
        for number in range(len(ends), len(ends) + COUNT):
            inserts = "; ".join(f"insert into {table} values ({number})" for table in TABLES)
            source.execute(f"begin; {inserts}; commit")
            ends[number] = Lsn.parse(source.value("select pg_current_wal_lsn()::text"))
        streaming.receive_once()
        transactions.update(
            (Lsn.parse(commit), Lsn.parse(end))
            for commit, end in target.rows(
                "select distinct commit_lsn::text, end_lsn::text from replication.messages"
            )
        )

    def replay(failpoint: str = "") -> int:
        env = {"PGREPL_FAILPOINT": failpoint}
        return run_pgrepl("replay", "--once", "--config", streaming.config, env=env).returncode

    observer = Observer(target, ends)
    with observer.watching():
        write_and_receive()
        assert replay("replayer.before_finish:kill") == -signal.SIGKILL
        write_and_receive()
        # So few changes the driver applies itself: it dies between the commits of two shards.
        assert replay("replayer.after_commit:kill") == -signal.SIGKILL
        write_and_receive()
        assert replay() == 0
    assert observer.broken == []
    bindings = [
        (at, Lsn.parse(lsn))
        for at, lsn in target.rows("select at, lsn::text from replication.progress order by at")
    ]
    assert len(transactions) == len(ends) == 3 * COUNT
    assert len(bindings) > 1
    assert observer.seen <= {lsn for _, lsn in bindings}
    assert all(first[1] < second[1] for first, second in pairwise(bindings))
    received = target.value("select received_lsn::text from replication.receive_progress")
    assert str(bindings[-1][1]) == received
    split = [lsn for _, lsn in bindings for commit, end in transactions if commit < lsn < end]
    assert split == []
