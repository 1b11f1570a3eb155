"""What doctor says of the newest records of a topic."""

from __future__ import annotations

import json

import pytest

from pgrepl.config.file import load_config
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.doctor.finding import Remedy
from pgrepl.doctor.stream_samples import Sample, check_samples
from tests.support.streams.debezium_events import recorded
from tests.support.streams.debezium_made import event


def check(tmp_path, samples, envelope="debezium", transaction_topic=""):
    path = tmp_path / "pgrepl.toml"
    path.write_text(
        f'[target]\ndsn = "dbname=t"\n[sources.feed]\nkind = "kafka"\nbootstrap = "b:1"\n'
        f'topics = ["t"]\nenvelope = "{envelope}"\n'
        + (f'transaction_topic = "{transaction_topic}"\n' if transaction_topic else "")
    )
    config = load_config(path).source("feed")
    return {own.check: own for own in check_samples(config, samples, JsonReader())}


def sample(key, value, topic="t"):
    parts = (None if part is None else json.dumps(part).encode() for part in (key, value))
    return Sample(topic, *parts)


@pytest.mark.parametrize(
    ("envelope", "key", "value", "expected"),
    [
        ("upsert", None, {"id": 1}, {"record-key", "record-schema"}),
        (
            "debezium-upsert",
            None,
            event("c", after={"id": 1}, order=1),
            {"record-key", "record-schema"},
        ),
        ("debezium", None, event("u", after={"id": 1}, order=1), {"before-image", "record-schema"}),
        (
            "debezium",
            None,
            event("u", before={"id": 1}, after={"id": 1}, order=1),
            {"record-schema"},
        ),
        (
            "debezium",
            {"id": 1},
            event("c", after={"id": 1}),
            {"transaction-metadata", "record-schema"},
        ),
        ("debezium", {"id": 1}, {"id": 1}, {"records"}),
        ("upsert", {"id": 1}, None, {"records"}),
    ],
)
def test_each_lack_is_found_with_its_remedy(tmp_path, envelope, key, value, expected):
    found = check(tmp_path, [sample(key, value), sample(key, value)], envelope)
    assert set(found) == expected
    for finding in found.values():
        assert finding.remedy is not None or finding.status.value == "ok"


def test_old_debezium(tmp_path):
    old = event("c", after={"id": 1}, order=1)
    old["source"]["version"] = "3.5.0.Final"
    found = check(tmp_path, [sample({"id": 1}, old)], transaction_topic="tx")
    assert found["debezium"].status.value == "failure"


@pytest.mark.parametrize(
    ("logical", "kind", "remedy"),
    [
        ("io.debezium.time.MicroDuration", "int64", "interval.handling.mode=string"),
        ("org.apache.kafka.connect.data.Decimal", "bytes", "decimal.handling.mode=string"),
        ("io.debezium.data.VariableScaleDecimal", "struct", "decimal.handling.mode=string"),
        ("io.debezium.time.Date", "int32", "time.precision.mode=isostring"),
    ],
)
@pytest.mark.parametrize("is_array", [False, True])
def test_columns_that_lose_values_are_named_with_the_setting_that_helps(
    tmp_path, logical, kind, remedy, is_array
):
    part = {"type": kind, "name": logical, "fields": []}
    if is_array:
        part = {"type": "array", "items": part}
    row = {"type": "struct", "fields": [{**part, "field": "c"}], "field": "after"}
    value = {
        "schema": {"type": "struct", "fields": [row]},
        "payload": event("c", after={"c": None}, order=1),
    }
    found = check(tmp_path, [sample({"id": 1}, value)] * 2)
    assert found["inexact-columns"].objects == ("t: c",)
    assert remedy in ((found["inexact-columns"].remedy or Remedy()).then or "")
    # Rows that nobody's connector made lose nothing.
    upsert = {"schema": row, "payload": {"c": None}}
    assert "inexact-columns" not in check(tmp_path, [sample({"id": 1}, upsert)], "upsert")


def test_recorded_events_have_what_they_need(tmp_path):
    samples = [Sample(topic, key, value) for topic, key, value in recorded("run1")]
    own = [sample for sample in samples if sample.topic.endswith(".customers")]
    assert set(check(tmp_path, own)) == {"record-schema"}
    assert check(tmp_path, [])["records"].message == "there is no record yet"
