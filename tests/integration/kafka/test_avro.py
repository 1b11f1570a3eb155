"""Avro in Confluent's framing, as a real Debezium wrote it; and what cannot be read."""

from __future__ import annotations

import json

from tests.support.streams.debezium_events import FIXTURES, recorded
from tests.support.streams.registry import Registry


def recorded_registry():
    found = json.loads((FIXTURES / "avro_schemas_by_id.json").read_text(encoding="utf-8"))
    return Registry({int(number): entry["schema"] for number, entry in found.items()})


def test_tables_are_made_from_schemas_and_what_is_lossy_is_parked(topics, stream_of, caplog):
    names = {"customers", "types"}
    sent = {name: topics.make(f"public.{name}") for name in names}
    for topic, key, value in recorded("avro"):
        table = topic.rpartition(".")[2]
        if table in sent:
            topics.send(sent[table], [(key, value)])
    with recorded_registry() as registry:
        stream = stream_of(
            *sent.values(), envelope="debezium", format="avro", registry=registry.address
        )
        # An unknown schema, no framing, too short, too long.
        for damage in (b"\0\0\0\xff\xff", b"{}", b"\0\0\0\0\1", b"\0\0\0\0\1\2\2\2"):
            topics.send(sent["types"], [(None, damage)])
        stream.bring()
    assert stream.rows(
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'feed_public.types'::regclass and attnum > 0 order by attnum limit 12"
    ) == [
        ("id", "integer"),
        ("n", "numeric"),
        ("n2", "numeric(30,10)"),
        ("f8", "double precision"),
        ("f4", "real"),
        ("ts", "timestamp without time zone"),
        ("ts3", "timestamp without time zone"),
        ("tstz", "timestamp with time zone"),
        ("d", "date"),
        ("t", "time without time zone"),
        ("ttz", "time with time zone"),
        ("iv", "interval"),
    ]
    # What never comes is said of each column, once, when it is made.
    for column in ("n", "n2", "d", "iv", "na", "mo"):
        assert caplog.text.count(f"column {column} of table public.types: ") == 1, column
    reasons = [
        reason
        for (reason,) in stream.rows(
            "select reason from replication.parked_record order by record_offset"
        )
    ]
    # Every recorded row has an interval, which came as a number.
    assert [reason for reason in reasons if "interval.handling.mode" in reason][:1]
    unreadable = "its value cannot be read:"
    assert reasons[-4:] == [
        f"{unreadable} the registry has no schema 65535",
        f"{unreadable} it is not in Confluent's framing: a zero byte and a schema's number",
        f"{unreadable} it is not what schema 1 describes",
        f"{unreadable} it is longer than what schema 1 describes",
    ]
