"""Writers that do to one table whatever a copy in chunks could get wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from tests.support.database import Database
from tests.support.meanwhile import meanwhile

#: A long value is stored out of line, and not sent when it does not change; ``tag`` tells whether
#: a row is one that was written so.
TABLE = """
create table t (id int primary key, a int not null, body text not null, u int unique,
                tag text not null);
alter table t alter body set storage external
"""
FILL = """
insert into app.t select g, g, b, g, md5(g || b)
  from generate_series(0, 998, 3) g cross join lateral (select repeat(md5(g::text), 80) b) x
"""
#: What may be wrong with a copy.
SPOIL = (
    "delete from app_copy.t where id % 7 = 0",
    "update app_copy.t set a = -1 where id % 5 = 0",
    (
        "insert into app_copy.t select g, g, g::text, null, '' from generate_series(-50, 1500, 17)"
        " g on conflict do nothing"
    ),
)
_KEYS = 1000
_PASSING = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
)


@contextmanager
def live_writers(database: Database, seed: int, *, count: int = 3) -> Iterator[None]:
    """Write until the block ends."""
    writers = [
        _Writer(database, random.Random(f"{seed}/{number}"), f"w{number}")
        for number in range(count)
    ]
    with meanwhile(*(writer.run for writer in writers)):
        yield


class _Writer:
    def __init__(self, database: Database, dice: random.Random, name: str) -> None:
        self._database = database
        self._dice = dice
        self._name = name
        self._prepared = 0

    def run(self, stop: threading.Event) -> None:
        with psycopg.connect(self._database.dsn()) as connection:
            connection.execute("set lock_timeout = '300ms'")
            connection.commit()
            while not stop.is_set():
                try:
                    self._transact(connection, stop)
                except _PASSING:
                    connection.rollback()

    def _transact(self, connection: psycopg.Connection, stop: threading.Event) -> None:
        dice = self._dice
        for _ in range(dice.choice((1, 1, 2, 5))):
            if dice.random() < 0.25:
                connection.execute("savepoint s")
                with suppress(*_PASSING):
                    self._write(connection)
                    self._write(connection)
                    if dice.random() < 0.5:
                        connection.execute("release s")
                        continue
                connection.execute("rollback to s")
            self._write(connection)
        if dice.random() < 0.05:
            # It stays open for longer than a chunk takes.
            stop.wait(0.5)
        end = dice.random()
        if end < 0.1:
            connection.rollback()
        elif end < 0.2:
            self._prepared += 1
            gid = f"{self._database.name}-{self._name}-{self._prepared}"
            connection.execute(f"prepare transaction '{gid}'".encode())
            connection.commit()
            connection.autocommit = True
            stop.wait(dice.choice((0.0, 0.05, 0.3)))
            what = dice.choice(("commit", "commit", "rollback"))
            connection.execute(f"{what} prepared '{gid}'".encode())
            connection.autocommit = False
        else:
            connection.commit()
        stop.wait(dice.choice((0.0, 0.001, 0.01)))

    def _write(self, connection: psycopg.Connection) -> None:
        dice = self._dice
        key, other, value = dice.randrange(_KEYS), dice.randrange(_KEYS), dice.randrange(10**9)
        values = {"key": key, "other": other, "value": value}
        body = "repeat(md5(%(value)s::text), 80)"
        statement = dice.choice(
            (
                (
                    "insert into app.t select %(key)s, %(value)s, b, null, md5(%(value)s || b)"
                    f" from (select {body} b) x on conflict do nothing"
                ),
                "update app.t set a = %(value)s, tag = md5(%(value)s || body) where id = %(key)s",
                f"update app.t set body = {body}, tag = md5(a || {body}) where id = %(key)s",
                "update app.t set id = %(other)s where id = %(key)s",
                (
                    "update app.t set id = %(other)s, a = %(value)s, tag = md5(%(value)s || body)"
                    " where id = %(key)s"
                ),
                "delete from app.t where id = %(key)s",
                "update app.t set u = %(other)s where id = %(key)s",
                "update app.t set u = null where id = %(key)s",
                (
                    "update app.t set id = id + 1000 where id between %(key)s and %(key)s + 3;"
                    " update app.t set id = id - 1000 where id >= 1000"
                ),
            )
        )
        if ";" in statement:
            for part in statement.split(";"):
                connection.execute(part.encode(), values)
        else:
            connection.execute(statement.encode(), values)
