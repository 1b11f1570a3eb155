"""What a session of pgrepl is, whatever roles, databases and networks do to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.errors import Retry, SourceError, SourceUnavailable, TargetError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated
from tests.support.database import Database
from tests.support.waiting import wait_until

SPECIMENS = """
    select '2026-03-01'::date::text, '1 day -2 hours'::interval::text, 0.1::float4::text,
           '\\x00ff'::bytea::text, '2026-03-01 12:00+02'::timestamptz::text, 1234.5::money::text
"""
AS_PRINTED = (
    "2026-03-01",
    "1 day -02:00:00",
    "0.1",
    "\\x00ff",
    "2026-03-01 10:00:00+00",
    "$1,234.50",
)


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """Listen on a port as a server that answers with these bytes, or with silence."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        clients: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                clients.append(client)
                if answer is not None:
                    client.recv(1024)
                    client.sendall(answer)
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for client in clients:
            client.close()


def source_at(dsn: str) -> Endpoint:
    return Endpoint(Side.SOURCE, "shop", Dsn(dsn))


def test_values_are_printed_the_same_whatever_the_database_sets(source: Database):
    name = source.name
    source.execute(
        f"alter database {name} set datestyle = 'German'",
        f"alter database {name} set intervalstyle = 'iso_8601'",
        f"alter database {name} set bytea_output = 'escape'",
        f"alter database {name} set extra_float_digits = -5",
        f"alter database {name} set timezone = 'Asia/Tokyo'",
        f"alter database {name} set search_path = 'nowhere'",
        f"alter database {name} set idle_in_transaction_session_timeout = '1ms'",
        f"alter database {name} set statement_timeout = '1ms'",
    )
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        ((*printed,),) = connection.execute(SPECIMENS).fetchall()
        assert tuple(printed) == AS_PRINTED
        connection.execute("select pg_sleep(0.01)")


def test_slot_waits_for_open_transactions_whatever_the_database_sets(source: Database):
    source.execute(f"alter database {source.name} set lock_timeout = '1ms'")
    endpoint = source.endpoint(Side.SOURCE)
    with (
        source.connect() as writer,
        connect(endpoint, "test", is_replication=True) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        writer.execute("begin; create table t (id int)")
        made = pool.submit(
            connection.execute,
            b"CREATE_REPLICATION_SLOT \"waits\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')",
        )
        waits = (
            "select wait_event_type = 'Lock' and clock_timestamp() - query_start > '0.1 s'"
            f" from pg_stat_activity where pid = {connection.info.backend_pid}"
        )
        wait_until(lambda: made.done() or source.value(waits))
        writer.execute("commit")
        assert made.result().rowcount == 1


def test_transactions_take_their_time_whatever_the_database_sets(source: Database):
    # PostgreSQL 17 has it, and older servers have nothing like it.
    if source.rows("select from pg_settings where name = 'transaction_timeout'"):
        source.execute(f"alter database {source.name} set transaction_timeout = '1ms'")
    with connect(source.endpoint(Side.SOURCE), "test") as connection, connection.transaction():
        connection.execute("select pg_sleep(0.05)")


def test_no_query_is_compiled_whatever_the_database_sets(source: Database):
    source.execute(
        f"alter database {source.name} set jit = on",
        f"alter database {source.name} set jit_above_cost = 0",
    )
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        plan = connection.execute("explain analyze select count(*) from pg_class").fetchall()
    assert "JIT" not in "".join(line for (line,) in plan)


def test_session_is_named_after_its_stage(source: Database):
    with connect(source.endpoint(Side.SOURCE), "doctor") as connection:
        assert connection.execute("show application_name").fetchall() == [("pgrepl-doctor",)]


def test_lsn_goes_in_and_out_as_an_lsn(source: Database):
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        ((lsn, same),) = connection.execute(
            "select %s::pg_lsn, %s = '16/B374D848'::pg_lsn", (Lsn(7), Lsn(0x16_B374_D848))
        ).fetchall()
    assert (type(lsn), lsn, same) == (Lsn, 7, True)


def test_server_that_never_answers_is_given_up():
    with listener(None) as port, pytest.raises(SourceUnavailable) as caught:
        connect(source_at(f"host=127.0.0.1 port={port} connect_timeout=2"), "test")
    assert f"no answer in time from host=127.0.0.1 port={port}" in caught.value.message
    assert "firewall" in (caught.value.hint or "")


@pytest.mark.parametrize("sslmode", ["disable", "prefer"])
def test_server_that_is_not_postgresql_is_recognised(sslmode):
    with (
        listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port,
        pytest.raises(SourceError) as caught,
    ):
        connect(source_at(f"host=127.0.0.1 port={port} sslmode={sslmode}"), "test")
    assert "not PostgreSQL" in (caught.value.hint or "")


def test_port_where_nothing_listens_says_so():
    with listener(None) as port:
        pass
    with pytest.raises(SourceUnavailable, match="Connection refused") as caught:
        connect(source_at(f"host=127.0.0.1 port={port}"), "test")
    assert caught.value.retry is Retry.TIMED


@pytest.fixture
def role(source: Database) -> Iterator[str]:
    name = f"{source.name}_role"
    source.execute(f"create role {name} login password 'right'")
    yield name
    source.execute(f"drop role {name}")


@pytest.mark.parametrize(
    ("parameters", "message", "hint"),
    [
        ({"password": "wr0ng"}, "password authentication failed", "pgpass"),
        ({}, "no password supplied", "pgpass"),
        ({"password": "right", "dbname": "nosuch"}, '"nosuch"', "dbname"),
        ({"host": "", "dbname": "nosuch"}, '"nosuch"', "dbname"),
        ({"host": "", "user": "nobody_here"}, '"nobody_here"', "user"),
    ],
    ids=["password", "no-password", "database", "database-trusted", "role-trusted"],
)
def test_server_that_refuses_us_says_why(source: Database, role, parameters, message, hint):
    given = {"host": "127.0.0.1", "user": role, **parameters}
    if not given["host"]:
        given["host"] = str(source.cluster.socket_dir)
    dbname = given.pop("dbname", source.name)
    with pytest.raises(SourceError) as caught:
        connect(source_at(source.cluster.dsn(dbname, **given)), "test")
    assert caught.value.retry is Retry.MANUAL
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "wr0ng" not in f"{caught.value.message} {caught.value.hint}"


def test_role_whose_connections_are_all_taken_is_tried_again(source: Database, role):
    source.execute(f"alter role {role} connection limit 1")
    dsn = source.dsn(host="127.0.0.1", user=role, password="right")
    with connect(source_at(dsn), "test"), pytest.raises(SourceUnavailable) as caught:
        connect(source_at(dsn), "test")
    assert "too many connections" in caught.value.message
    assert "CONNECTION LIMIT" in (caught.value.hint or "")


def error_of(target: Database, statement: str) -> TargetError:
    """Return what a statement on the target raises."""
    endpoint = target.endpoint(Side.TARGET)
    with (
        connect(endpoint, "test") as connection,
        pytest.raises(TargetError) as caught,
        translated(endpoint, "cannot do it"),
    ):
        connection.execute(statement.encode())
    return caught.value


def test_error_of_the_target_is_a_target_error(target: Database):
    error = error_of(target, "select * from public.missing")
    assert error.message == 'target: cannot do it: relation "public.missing" does not exist'
    assert error.retry is Retry.MANUAL


def test_row_values_stay_out_of_errors(target: Database):
    target.execute("create table t (k text primary key)", "insert into t values ('v4lue')")
    for statement in ("insert into public.t values ('v4lue')", "select 'v4lue'::integer"):
        assert "v4lue" not in error_of(target, statement).message


@pytest.mark.parametrize(
    ("sqlstate", "is_transient"),
    [
        ("40001", True),
        ("40P01", True),
        ("53100", True),
        ("55P03", True),
        ("57P01", True),
        ("42501", False),
        ("23505", False),
        ("XX000", False),
    ],
)
def test_only_what_passes_by_itself_is_transient(target: Database, sqlstate, is_transient):
    error = error_of(target, f"do $$ begin raise 'x' using errcode = '{sqlstate}'; end $$")
    assert (error.retry is Retry.TIMED) is is_transient


def test_connection_cut_by_the_server_is_transient(target: Database):
    assert error_of(target, "select pg_terminate_backend(pg_backend_pid())").retry is Retry.TIMED
