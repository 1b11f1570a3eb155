"""One COPY piped into another."""

from __future__ import annotations

import threading

import pytest

from pgrepl.basebackup.rows.copy_pipe import copy_in, copy_out, transfer
from pgrepl.catalog.tables import read_tables
from pgrepl.config.dsn import Side
from pgrepl.config.rules import Rules
from pgrepl.errors import SourceError
from tests.support.waiting import wait_until

ROWS = 4_000
ROW_BYTES = 10_000
MIB = 1024 * 1024

#: A COPY that this number of looks finds in the same place is blocked.
LOOKS = 20


@pytest.fixture
def table(source, target):
    make = "create table public.big (id int, note text)"
    source.execute(
        make,
        "alter table big alter note set storage external",
        f"insert into big select g, repeat('x', {ROW_BYTES}) from generate_series(1, {ROWS}) g",
    )
    target.execute(make)
    with source.connect() as connection:
        (found,) = read_tables(connection, Rules())
    return found


def carry(source, target, table):
    with source.connect() as reading, target.connect() as writing:
        return transfer(
            (source.endpoint(Side.SOURCE), reading, copy_out(table, None, None)),
            (target.endpoint(Side.TARGET), writing, copy_in(table, ("public", table.name))),
            table,
        )


def test_rows_arrive_and_are_counted(source, target, table):
    carried = carry(source, target, table)
    assert carried.row_count == ROWS
    assert carried.byte_count > ROWS * ROW_BYTES
    content = "select count(*), md5(string_agg(note, '' order by id)) from big"
    assert target.rows(content) == source.rows(content)


def test_row_that_the_target_does_not_write_is_missed(source, target, table):
    target.execute(
        "create function refuse() returns trigger language plpgsql as"
        " 'begin return case when new.id = 7 then null else new end; end'",
        "create trigger refuse before insert on big for each row execute function refuse()",
    )
    with pytest.raises(SourceError, match=f"sent {ROWS} rows .*, {ROWS - 1} were written"):
        carry(source, target, table)


def test_no_more_is_read_than_a_slow_target_takes(source, target, table):
    target.execute(
        "create function wait() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(1); return new; end'",
        "create trigger wait before insert on big for each row execute function wait()",
    )
    done = []
    copying = threading.Thread(target=lambda: done.append(carry(source, target, table)))
    with target.connect() as lock, source.connect() as looking:
        lock.execute("select pg_advisory_lock(1)")
        copying.start()
        wait_until(lambda: bytes_read(looking) > 0)
        read_bytes = wait_until(lambda: standstill(looking))
        lock.execute("select pg_advisory_unlock(1)")
        copying.join()
    assert read_bytes < 8 * MIB < ROWS * ROW_BYTES
    assert done[0].row_count == ROWS


def standstill(connection):
    """Return how far the source's COPY is if it does not move; 0 when it is over."""
    looks = {bytes_read(connection) for _ in range(LOOKS)}
    return looks.pop() if len(looks) == 1 else None


def bytes_read(connection):
    query = "select coalesce(max(bytes_processed), 0) from pg_stat_progress_copy"
    ((found,),) = connection.execute(query).fetchall()
    return found
