"""Tables are added and copied again, with kills, under a random workload: equal in the end.

How many seeds: ``PGREPL_SOAK_SEEDS``, 20 unless given. Receive and replay run all the time, replay
in the driver alone; a reader looks at the target all the time.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from pgrepl.config.model import Plugin
from tests.support.database import Database
from tests.support.meanwhile import again, meanwhile
from tests.support.program import run_pgrepl
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import QUICK, Pipeline

SEEDS = int(os.environ.get("PGREPL_SOAK_SEEDS", "20"))
ALONE = replace(QUICK, driver_changes=10**9)

TABLES = """
create schema app;
create table app.items (id integer primary key, n bigint not null, body text, seal text not null);
create table app.plain (n bigint not null, note text);
alter table app.plain replica identity full;
create table app.log (id bigint generated always as identity primary key, note text);
insert into app.items select g, g, repeat('b', 3000), md5(g || ' ' || g)
  from generate_series(1, 400) g;
insert into app.plain select g, 'p' from generate_series(1, 400) g;
insert into app.log (note) select 'l' from generate_series(1, 400) g;
"""
NEW = """
create table app.added (id integer primary key, n bigint not null, body text, seal text not null);
insert into app.added select * from app.items;
"""
PLACES = ["parked", "waited", "made", "planned", "copied", "before_swap_commit", "swapped"]


def write_some(connection: psycopg.Connection, dice: random.Random, table: str) -> None:
    """Run one transaction: rows sealed by their values, so that one that never was is known."""
    name = f"app.{table}".encode()
    for _ in range(dice.randrange(1, 5)):
        key, other = dice.randrange(1, 600), dice.randrange(1, 600)
        seal = b"seal = md5(%s || ' ' || %s)"
        connection.execute("savepoint a")
        try:
            match dice.randrange(5):
                case 0:
                    connection.execute(
                        b"insert into " + name + b" values (%s, %s, repeat('c', %s),"
                        b" md5(%s || ' ' || %s)) on conflict do nothing",
                        (key, other, dice.choice([1, 5000]), key, other),
                    )
                case 1:
                    # The long value stays what it was, and is not in the stream.
                    connection.execute(
                        b"update " + name + b" set n = %s, " + seal + b" where id = %s",
                        (other, key, other, key),
                    )
                case 2:
                    connection.execute(
                        b"update " + name + b" set id = %s, seal = md5(%s || ' ' || n)"
                        b" where id = %s",
                        (other, other, key),
                    )
                case 3:
                    connection.execute(b"delete from " + name + b" where id = %s", (key,))
                case _:
                    connection.execute("update app.plain set note = 'x' where n = %s", (key,))
        except psycopg.errors.UniqueViolation:
            connection.execute("rollback to a")
        if dice.random() < 0.2:
            connection.execute("rollback to a")
    if dice.random() < 0.02:
        # More than the server keeps in memory of one transaction.
        for _ in range(70):
            connection.execute("savepoint b")
            connection.execute(
                b"update " + name + b" set body = body || 'd' where id = %s",
                (dice.randrange(1, 600),),
            )


def make_writer(source: Database, dice: random.Random, tables: list[str]) -> Callable[[], None]:
    def write() -> None:
        with psycopg.connect(source.dsn()) as connection:
            for _ in range(20):
                try:
                    transact(connection)
                except psycopg.errors.DeadlockDetected:
                    # With the other writer: they take rows in any order.
                    connection.rollback()

    def transact(connection: psycopg.Connection) -> None:
        write_some(connection, dice, dice.choice(tables))
        if dice.random() < 0.05:
            threading.Event().wait(0.5)
        end = dice.random()
        if end < 0.15:
            connection.rollback()
        elif end < 0.25:
            gid = f"{source.name}-{dice.randrange(10**9)}"
            connection.execute(f"prepare transaction '{gid}'".encode())
            connection.commit()
            connection.autocommit = True
            connection.execute(f"commit prepared '{gid}'".encode())
            connection.autocommit = False
        else:
            connection.commit()

    return write


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_tables_that_are_copied_again_and_added_are_the_source(source, target, tmp_path, seed):
    dice = random.Random(seed)
    source.execute(TABLES)
    plugin: Plugin = "wal2json" if seed % 2 else "pgoutput"
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    config = write_copy_config(tmp_path, source, target)
    config.write_text(f'{config.read_text()}plugin = "{plugin}"\n')
    there = pipeline.schema("app")
    wrong: list[object] = []

    def follow() -> None:
        pipeline.receive()
        pipeline.replay(ALONE)

    def read() -> None:
        for table in ("items", "added"):
            if target.value(f"select to_regclass('{there}.{table}') is null"):
                continue
            row = target.rows(
                f"select count(*) > 0, count(*) = count(distinct id), bool_and(seal = md5(id || ' '"
                f" || n)) from {there}.{table}"
            )[0]
            if row != (True, True, True):
                wrong.append((table, row))
        ((count, distinct),) = target.rows(f"select count(*), count(distinct n) from {there}.plain")
        if not count == distinct == 400:
            wrong.append(("plain", count, distinct))

    tables = ["items"]
    writers = [make_writer(source, random.Random(seed * 10 + n), tables) for n in range(2)]
    with meanwhile(*(again(act, 0.01) for act in (follow, read, *writers))):
        source.execute(NEW)
        for round_ in range(6):
            chosen = dice.sample(["app.items", "app.plain", "app.log"], dice.randrange(1, 4))
            if round_ >= 2:
                chosen.append("app.added")
            command = ("resync", source.name, *chosen, "--way", "whole", "--config", config)
            env = {"PGREPL_FAILPOINT": f"resync.{dice.choice(PLACES)}:kill"}
            is_killed = dice.random() < 0.6
            done = run_pgrepl(*command, env=env if is_killed else {})
            assert done.returncode in ((0, -signal.SIGKILL) if is_killed else (0,)), done.stderr
            if round_ == 2:
                tables.append("added")
        done = run_pgrepl("resync", source.name, "--all", "--way", "whole", "--config", config)
        assert done.returncode == 0, done.stderr
    pipeline.apply(ALONE)
    assert wrong == []
    assert pipeline.differences("app") == []
    assert target.rows("select from replication.resync") == []
