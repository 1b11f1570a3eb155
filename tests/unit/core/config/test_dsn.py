from __future__ import annotations

import pytest

from pgrepl.config.dsn import Dsn, DsnError, Endpoint, Side

SECRET = "s3cr3t"
WITH_SECRET = [
    f"host=db dbname=shop user=pgrepl password={SECRET}",
    f"postgresql://pgrepl:{SECRET}@db:5433/shop?sslmode=require",
    f"postgres://db/shop?user=pgrepl&sslpassword={SECRET}",
]


@pytest.mark.parametrize("text", WITH_SECRET)
def test_no_way_of_printing_a_dsn_shows_its_secret(text):
    dsn = Dsn(text)
    endpoint = Endpoint(Side.SOURCE, "shop", dsn)
    shown = [
        str(dsn),
        repr(dsn),
        dsn.masked(),
        dsn.for_another_user(host="db", port=1, dbname="d"),
        str(endpoint),
        repr(endpoint),
    ]
    assert not any(SECRET in each for each in shown)
    assert dsn.has_password


@pytest.mark.parametrize("text", WITH_SECRET)
def test_masked_dsn_shows_where_the_secret_stands(text):
    assert "=********" in Dsn(text).masked()


def test_dsn_prints_as_the_place_it_leads_to():
    dsn = Dsn("postgresql://pgrepl:x@db.example:5433/shop?sslmode=require")
    assert str(dsn) == "host=db.example port=5433 dbname=shop user=pgrepl"


def test_way_for_another_user_says_host_port_and_tls_but_not_the_user():
    dsn = Dsn("postgresql://pgrepl:x@/shop?sslmode=require&options=-cwork_mem%3D1MB")
    way = dsn.for_another_user(host="/run/postgresql", port=5433, dbname="shop")
    assert way == "host=/run/postgresql port=5433 dbname=shop sslmode=require"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hostt=db", 'invalid connection option "hostt"'),
        ("postgres://db/shop?hostt=1", 'invalid URI query parameter: "hostt"'),
        (f"{SECRET} dbname=shop", "neither a libpq connection string nor a URI"),
        (f"postgres://u:p@{SECRET}@db/shop", "percent-encoded"),
        (f"postgres://[{SECRET}/shop", "neither a libpq connection string nor a URI"),
        (f"postgresql://u:p/{SECRET}@db/shop", "percent-encoded"),
        (f"postgresql://u:{SECRET}/x@db/shop", "percent-encoded"),
        (f"dbname='postgresql://u:{SECRET}@db/shop'", "not another connection string"),
        (f"password=two {SECRET}=1", "neither a libpq connection string nor a URI"),
        (f"host=db\0 password={SECRET}", "neither a libpq connection string nor a URI"),
        (f"host=db port={SECRET}", "the port is not a number"),
    ],
)
def test_text_that_is_no_dsn_is_refused_without_quoting_it(text, reason):
    with pytest.raises(DsnError) as caught:
        Dsn(text)
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_database_defaults_to_the_user_as_in_libpq():
    assert Dsn("host=db user=shop").dbname == "shop"


def test_database_of_a_service_is_known_to_libpq_only():
    assert Dsn("service=shop").dbname is None


def test_environment_variables_of_libpq_count(monkeypatch):
    monkeypatch.setenv("PGDATABASE", "shop")
    assert Dsn("host=db").dbname == "shop"


def test_parameters_that_are_looked_up_together_are_each_as_alone(monkeypatch):
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    monkeypatch.setenv("PGOPTIONS", "-c a=b")
    dsn = Dsn("host=db.example options='-c geqo=off'")
    found = dsn.lookup("options", "connect_timeout", "keepalives_idle")
    assert found == {"options": "-c geqo=off", "connect_timeout": "7", "keepalives_idle": None}
    assert found == {key: dsn.parameter(key) for key in found}
