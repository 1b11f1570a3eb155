from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.errors import Retry
from pgrepl.postgres.connect import conninfo
from pgrepl.postgres.sqlstate import translate


def parameters(dsn, **flags):
    return conninfo_to_dict(conninfo(Endpoint(Side.SOURCE, "shop", Dsn(dsn)), "receive", **flags))


def test_dead_server_is_given_up_after_ten_seconds():
    assert parameters("host=db")["connect_timeout"] == "10"


def test_timeout_of_the_dsn_or_of_the_environment_wins(monkeypatch):
    assert parameters("host=db connect_timeout=3")["connect_timeout"] == "3"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert "connect_timeout" not in parameters("host=db")


def test_session_is_named_after_its_stage():
    assert parameters("host=db application_name=x")["application_name"] == "pgrepl-receive"


def test_options_of_the_dsn_stay_and_ours_come_last():
    options = parameters("host=db options='-c work_mem=1MB -c datestyle=German'")["options"]
    assert options.startswith("-c work_mem=1MB -c datestyle=German -c datestyle=ISO,YMD")


def test_tls_settings_are_left_to_libpq():
    given = parameters("host=db sslmode=verify-full sslrootcert=/ca.pem")
    assert (given["sslmode"], given["sslrootcert"]) == ("verify-full", "/ca.pem")


def test_replication_connection_asks_for_the_database():
    assert parameters("host=db", is_replication=True)["replication"] == "database"
    assert "replication" not in parameters("host=db")


def test_user_without_a_name_is_told_what_to_write():
    exc = psycopg.OperationalError("connection is bad: local user with ID 4711 does not exist")
    endpoint = Endpoint(Side.TARGET, "target", Dsn("dbname=w"))
    error = translate(exc, endpoint, "cannot connect")
    assert "user=" in (error.hint or "")
    assert error.retry is Retry.MANUAL
