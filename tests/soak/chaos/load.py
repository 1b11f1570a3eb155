"""Writers whose transactions keep invariants that a reader of the target can check.

``debit`` and ``credit`` have one sum between them, ``scratch`` is 50 rows of one generation,
a row of ``items`` is sealed by its own values, ``bulk`` has whole hundreds.
"""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

TABLES = """
create schema app;
create table app.debit (id integer primary key, amount bigint not null);
create table app.credit (id integer primary key, amount bigint not null);
create table app.scratch (id integer primary key, generation bigint not null);
create table app.items (id integer primary key, n bigint not null, body text, seal text not null);
create table app.plain (n bigint not null, note text);
alter table app.plain replica identity full;
create table app.bulk (id bigint generated always as identity primary key, hundred bigint, v text);
create table app.shape (id integer primary key, n bigint not null);
insert into app.debit select g, 1000 from generate_series(1, 100) g;
insert into app.credit select g, 1000 from generate_series(1, 100) g;
insert into app.scratch select g, 0 from generate_series(1, 50) g;
insert into app.items select g, g, repeat('b', 3000), md5(g || ' ' || g)
  from generate_series(1, 300) g;
insert into app.plain select g, 'p' from generate_series(1, 100) g;
insert into app.bulk (hundred, v) select 0, 'v' from generate_series(1, 100);
insert into app.shape select g, g from generate_series(1, 50) g;
"""
_SEAL = "md5(%(id)s || ' ' || %(n)s)"
#: A transaction that lost its race, or its server; it is tried again or not, as it comes.
PASSING = (psycopg.OperationalError, psycopg.IntegrityError)


class Load:
    """Threads that write to one source; ``counts`` says how many transactions of each kind."""

    def __init__(
        self, dsn: Callable[[], str], seed: str, writers: int = 2, *, has_ddl: bool = True
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        #: Statements that no server takes: then nothing of their kind would ever happen.
        self.wrong: list[str] = []
        self._dsn = dsn
        self._stop = threading.Event()
        self._may_write = threading.Event()
        self._may_write.set()
        self._writers = writers + has_ddl
        self._writing = threading.Semaphore(self._writers)
        self._lock = threading.Lock()
        dice = [random.Random(f"{seed}/{number}") for number in range(writers)]
        acts = [(self._write_rows, d) for d in dice]
        if has_ddl:
            acts.append((self._shape, random.Random(f"{seed}/ddl")))
        self._threads = [threading.Thread(target=self._run, args=act) for act in acts]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No transaction is open until the block ends."""
        self._may_write.clear()
        for _ in range(self._writers):
            self._writing.acquire()
        try:
            yield
        finally:
            for _ in range(self._writers):
                self._writing.release()
            self._may_write.set()

    def close(self) -> None:
        self._stop.set()
        self._may_write.set()
        for thread in self._threads:
            thread.join()

    def _run(
        self, act: Callable[[psycopg.Connection, random.Random], str], dice: random.Random
    ) -> None:
        while not self._stop.is_set():
            self._may_write.wait()
            with self._writing:
                if not self._may_write.is_set():
                    continue
                try:
                    with psycopg.connect(self._dsn(), connect_timeout=5) as connection:
                        connection.execute("set lock_timeout = '2s'; set statement_timeout = '20s'")
                        connection.commit()
                        self._some(connection, act, dice)
                except PASSING:
                    self._count("failed")
                except psycopg.Error as exc:
                    self.wrong.append(f"{type(exc).__name__}: {exc}")
                    return
            self._stop.wait(dice.choice((0.0, 0.01, 0.1)))

    def _some(
        self,
        connection: psycopg.Connection,
        act: Callable[[psycopg.Connection, random.Random], str],
        dice: random.Random,
    ) -> None:
        for _ in range(20):
            if self._stop.is_set() or not self._may_write.is_set():
                return
            kind = act(connection, dice)
            if dice.random() < 0.08:
                connection.rollback()
                kind = "rolled back"
            else:
                connection.commit()
            self._count(kind)
            self._stop.wait(dice.choice((0.05, 0.2, 0.6)))

    def _count(self, kind: str) -> None:
        with self._lock:
            self.counts[kind] += 1

    def _write_rows(self, connection: psycopg.Connection, dice: random.Random) -> str:
        kind = dice.choices(("transfer", "items", "plain", "scratch", "bulk"), (50, 30, 10, 2, 1))[
            0
        ]
        getattr(self, f"_{kind}")(connection, dice)
        return kind

    def _transfer(self, connection: psycopg.Connection, dice: random.Random) -> None:
        amount = dice.randrange(-50, 50)
        for _ in range(dice.choice((1, 1, 3))):
            values = (amount, dice.randrange(1, 101))
            connection.execute("update app.debit set amount = amount + %s where id = %s", values)
            values = (amount, dice.randrange(1, 101))
            connection.execute("update app.credit set amount = amount - %s where id = %s", values)

    def _items(self, connection: psycopg.Connection, dice: random.Random) -> None:
        for _ in range(dice.choice((1, 2, 6))):
            values = {
                "id": dice.randrange(600),
                "n": dice.randrange(10**9),
                "other": dice.randrange(600),
                "size": dice.choice((1, 4000)),
            }
            statement = dice.choice(
                (
                    "insert into app.items values (%(id)s, %(n)s, repeat('c', %(size)s), "
                    + _SEAL
                    + ") on conflict do nothing",
                    f"update app.items set n = %(n)s, seal = {_SEAL} where id = %(id)s",
                    (
                        "update app.items set id = id + 1000, seal = md5(id + 1000 || ' ' || n)"
                        " where id = %(id)s and not exists"
                        " (select from app.items where id = %(id)s + 1000)"
                    ),
                    "delete from app.items where id in (%(id)s, %(other)s + 1000)",
                )
            )
            connection.execute("savepoint s")
            connection.execute(statement.encode(), values)
            if dice.random() < 0.2:
                connection.execute("rollback to s")

    def _plain(self, connection: psycopg.Connection, dice: random.Random) -> None:
        connection.execute(
            "update app.plain set note = %s where n = %s",
            (str(dice.random()), dice.randrange(1, 101)),
        )

    def _scratch(self, connection: psycopg.Connection, dice: random.Random) -> None:
        connection.execute(
            dice.choice(("truncate app.scratch", "delete from app.scratch")).encode()
        )
        connection.execute(
            "insert into app.scratch select g, %s from generate_series(1, 50) g",
            (dice.randrange(10**9),),
        )

    def _bulk(self, connection: psycopg.Connection, dice: random.Random) -> None:
        hundreds = dice.choice((1, 1, 5, 5, 40, 250))
        connection.execute(
            "insert into app.bulk (hundred, v) select %s, repeat(md5(g::text), 4)"
            " from generate_series(1, %s * 100) g",
            (dice.randrange(10**9), hundreds),
        )
        connection.execute(
            "delete from app.bulk where hundred in (select hundred from app.bulk"
            " group by 1 order by min(id) desc offset 8)"
        )

    def _shape(self, connection: psycopg.Connection, dice: random.Random) -> str:
        """Change the structure of a table, or make and drop one, with rows before and after."""
        number = dice.randrange(10**6)
        connection.execute("update app.shape set n = n + 1 where mod(id, 7) = %s", (number % 7,))
        columns = [
            name
            for (name,) in connection.execute(
                "select attname::text from pg_attribute where attrelid = 'app.shape'::regclass"
                " and attnum > 2 and not attisdropped order by attnum"
            )
        ]
        match dice.randrange(5):
            case 0 if len(columns) > 3:
                statement = f"alter table app.shape drop column {columns[0]}"
            case 0 | 1:
                statement = f"alter table app.shape add column c{number} int default {number}"
            case 2 if columns:
                statement = f"alter table app.shape rename column {columns[-1]} to r{number}"
            case 3:
                statement = (
                    f"create table app.extra_{number} as"
                    " select g id, md5(g::text) v from generate_series(1, 20) g;"
                    f" alter table app.extra_{number} add primary key (id)"
                )
            case _:
                statement = (
                    "".join(
                        f"drop table app.{name};"
                        for (name,) in connection.execute(
                            "select relname::text from pg_class where relname like 'extra%' and"
                            " relkind = 'r' order by relname limit 2"
                        )
                    )
                    or "alter table app.shape alter n set default 1"
                )
        connection.execute(statement.encode())
        connection.execute("update app.shape set n = n + 1 where mod(id, 5) = %s", (number % 5,))
        # More often than this replay cannot follow on a machine that does other things too.
        self._stop.wait(3.0)
        return "ddl"
