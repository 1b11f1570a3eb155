"""Writers that change a source while it is copied."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.database import Database

TABLES = """
create schema app;
create table app.accounts (id integer primary key, balance numeric not null, note text);
create table app.history (id bigint generated always as identity primary key,
                          account integer not null references app.accounts, delta numeric);
create table app.moves (id integer, place integer, note text, primary key (id, place))
    partition by list (place);
create table app.moves_0 partition of app.moves for values in (0);
create table app.moves_1 partition of app.moves for values in (1);
insert into app.accounts select g, g, 'note ' || g from generate_series(1, 2000) g;
insert into app.history (account, delta) select 1 + g % 2000, g from generate_series(1, 3000) g;
insert into app.moves select g, g % 2, 'move ' || g from generate_series(1, 500) g;
"""

SCHEMAS = ("app",)


def make_tables(database: Database) -> None:
    database.execute(TABLES)


@contextmanager
def writers(
    database: Database, count: int = 2, pause_s: float = 0.002
) -> Iterator[threading.Event]:
    """Write until the block ends; the event is set when every writer has committed something."""
    stop = threading.Event()
    begun = [threading.Event() for _ in range(count)]
    threads = [
        threading.Thread(target=_write, args=(database, number, begun[number], stop, pause_s))
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        for event in begun:
            assert event.wait(120)
        yield stop
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _write(
    database: Database, number: int, begun: threading.Event, stop: threading.Event, pause_s: float
) -> None:
    dice = random.Random(number)
    new = 10_000 + number
    with psycopg.connect(database.dsn()) as connection:
        while not stop.is_set():
            new += 10
            try:
                _write_some(connection, dice, new)
            except psycopg.errors.SerializationFailure:
                # Two writers moved the same row to another partition.
                connection.rollback()
            if dice.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
                begun.set()
            stop.wait(pause_s)


def _write_some(connection: psycopg.Connection, dice: random.Random, new: int) -> None:
    account = 1 + dice.randrange(2000)
    connection.execute("update app.accounts set balance = balance + 1 where id = %s", (account,))
    connection.execute("insert into app.history (account, delta) values (%s, 1)", (account,))
    connection.execute(
        "update app.moves set place = 1 - place where id = %s", (1 + dice.randrange(500),)
    )
    connection.execute("insert into app.accounts values (%s, 0, 'new')", (new,))
    if dice.random() < 0.3:
        connection.execute(
            "delete from app.history where id = (select min(id) + %s from app.history)",
            (dice.randrange(100),),
        )
