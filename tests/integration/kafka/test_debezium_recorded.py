"""What a real Debezium sent, crash and all, reaches the target as the source was."""

from __future__ import annotations

import pytest

from pgrepl.errors import TargetError
from tests.support.streams.debezium_events import recorded
from tests.support.streams.kafka import Stream

TABLES = ("customers", "orders", "nopk", "types", "ddl1")
#: As setup.sql has them, but for the interval: as Debezium sends it by default it is a number.
DDL = """
create extension if not exists hstore schema feed_public;
create type feed_public.mood as enum ('sad','ok');
create table feed_public.customers(id int primary key, name text, big text);
create table feed_public.orders(id bigint primary key, cid int, amt numeric(10,2));
create table feed_public.nopk(a int, b text);
create table feed_public.ddl1(id int primary key);
create table feed_public.types(id int primary key, n numeric, n2 numeric(30,10), f8 float8,
    f4 real, ts timestamp, ts3 timestamp(3), tstz timestamptz, d date, t time, ttz timetz,
    iv bigint, by bytea, j json, jb jsonb, u uuid, h json, ia int[], ta text[], na numeric[],
    m feed_public.mood, p point, ip inet, mo money, b3 bit(3), b1 bit(1), x xml, r int4range,
    c char(5), tsa timestamptz[], oi oid, vb varbit(5), bo bool);
"""
MD5S = "select string_agg(md5(g::text), '') from generate_series(1, 400) g"


@pytest.fixture
def bring(topics, stream_of):
    """Return a function that sends recorded runs and brings them to the target."""
    sent: dict[str, str] = {}
    streams: list[Stream] = []

    def bring(envelope, *runs, partitions=1, transactions=False):
        if not streams:
            sent.update({name: topics.make(f"public.{name}", partitions) for name in TABLES})
            settings = {}
            if transactions:
                settings["transaction_topic"] = topics.make("transaction")
            stream = stream_of(*sent.values(), envelope=envelope, **settings)
            if transactions:
                sent["transaction"] = settings["transaction_topic"]
            topics.send(
                sent["customers"], [next((key, value) for _, key, value in recorded("run1"))]
            )
            with pytest.raises(TargetError, match="no table"):
                stream.receive()
            stream.target.execute(DDL)
            streams.append(stream)
        for run in runs:
            # The first record of the first run is there already.
            for topic, key, value in list(recorded(run))[run == "run1" :]:
                table = topic.rpartition(".")[2]
                if table in sent:
                    topics.send(sent[table], [(key, value)])
        streams[0].bring()
        return streams[0]

    return bring


@pytest.mark.parametrize("envelope", ["debezium", "debezium-upsert"])
def test_recorded_runs_are_the_source_and_a_replay_changes_nothing(bring, envelope):
    stream = bring(envelope, "run1", "run2", "run4")
    customers = "select id, name, big = (" + MD5S + ") from feed_public.customers order by id"
    expected = [
        (1, "ann", False), (2, "bob", None), (11, "c10b", True), (30, "q", None), (40, "q", None),
        (41, "q", None), (101, "x", False), (102, "y", False), (103, "z", False),
        (201, "x", False), (202, "y", False),
    ]  # fmt: skip
    assert stream.rows(customers) == expected
    orders = "select id from feed_public.orders order by id"
    assert stream.rows(orders) == [(20,), (21,), (40,), (41,), (42,)]
    assert stream.rows("select id from feed_public.ddl1 order by id") == [(1,), (3,)]
    if envelope == "debezium":
        assert stream.rows("select a, b from feed_public.nopk") == [(1, "b")]
    else:
        # Nothing tells rows without a key apart.
        assert stream.rows(
            "select topic ~ 'nopk', count(*) from replication.parked_record group by 1 order by 1"
        ) == [(False, 1), (True, 4)]

    # After its restart Debezium sent four of five events again.
    bring(envelope, "run5")
    assert stream.rows(customers) == expected
    assert stream.rows(orders) == [(20,), (21,), (40,), (41,), (42,), (43,)]
    if envelope == "debezium":
        assert stream.rows(
            "select topic ~ 'types', record_offset, reason from replication.parked_record"
        ) == [(True, 1, 'column "d": a date lies outside of what PostgreSQL can have')]
    assert stream.rows("select reason from replication.parked_table") == []


def test_values_are_exactly_those_of_the_source(bring):
    stream = bring("debezium", "run1")
    ((*values,),) = stream.rows(
        "select n, n2::text, f8::text, f4::text, ts::text, ts3::text,"
        " tstz at time zone 'UTC' = '2024-02-29 10:34:56.789123', d::text, t::text, ttz::text, iv,"
        " by, j::text, jb::text, u::text, h::text, ia, ta, na, m::text, p::text, ip::text,"
        " mo::numeric::text, b3::text, b1::text, x::text, r::text, c, tsa[1] = '2024-01-01 00:00Z',"
        " oi, vb::text, bo from feed_public.types where id = 1"
    )
    assert values == [
        None, "12345678901234567890.0123456789", "NaN", "Infinity", "infinity",
        "2024-02-29 12:34:56.789", True, "2024-02-29", "24:00:00", "07:04:56.5+00", 36572706789000,
        b"\x00\xff", '{"a": 1.10}', '{"a": 1.10, "b": null}',
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '{"a":"1","b":null}', [1, None, 3],
        ["a", "b,c", None], None, "ok", "(1.5,2)", "10.0.0.1/24", "-12.34", "101", "1", "<a/>",
        "[1,5)", "ab   ", True, 4294967295, "10101", True,
    ]  # fmt: skip
    assert stream.rows(
        "select n::text, ts::text, tstz = '0044-03-15 00:00:00+00 BC', d::text, f8::text"
        " from feed_public.types where id = 3"
    ) == [
        (
            "123456789012345678901234567890.123",
            "0044-03-15 00:00:00 BC",
            True,
            # Debezium lost the era: the source has 44 BC.
            "0044-03-15",
            "0",
        )
    ]


def test_transactions_become_visible_whole_or_not_at_all(bring):
    stream = bring("debezium", "run1", "run2", "run4", partitions=3, transactions=True)
    # The last one has no end yet: five of its events in two topics wait.
    orders = "select id from feed_public.orders order by id"
    assert stream.rows(orders) == [(20,), (21,)]
    assert stream.rows("select id from feed_public.customers where id in (11, 30, 40, 41)") == [
        (11,),
        (30,),
    ]
    # A key that changed, unchanged TOAST, and a TRUNCATE, in topics of three partitions.
    assert stream.rows(
        "select name, big = (" + MD5S + ") from feed_public.customers where id = 11"
    ) == [("c10b", True)]
    assert stream.rows("select a, b from feed_public.nopk") == [(1, "b")]
    ends = "select distinct source_lsn::text from replication.stream_progress order by 1"
    assert stream.rows(ends)[-1] == ("0/164CE98",)

    bring("debezium", "run5")
    assert stream.rows(orders) == [(20,), (21,), (40,), (41,), (42,), (43,)]
    assert stream.rows("select count(*) from feed_public.customers where id in (40, 41)") == [(2,)]
    # Ends that come again are passed over, with the events of their transactions.
    assert bring("debezium", "run5").rows(orders)[-1] == (43,)
    assert stream.rows("select reason from replication.parked_table") == []
