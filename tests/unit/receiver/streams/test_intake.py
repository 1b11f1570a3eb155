"""What leaves for the spool: every segment ends, whatever is parked meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.envelopes.upsert import UpsertEnvelope
from pgrepl.receiver.streams.intake import Intake
from pgrepl.store.streams import Partition
from tests.support.streams.stream_intake import layouts_of, record

PLACE = ("srv.public.orders", 0)


def test_segment_ends_though_parked_records_leave_before_it():
    spool = SimpleNamespace(
        source=SimpleNamespace(name="feed"), read_buckets=dict, read_progress=lambda: None
    )
    intake = Intake(
        cast("SpoolSession", spool),
        UpsertEnvelope(JsonReader(), layouts_of({"orders": {"id": "integer"}})),
        [Partition(*PLACE, "x", 0, {})],
        on_error="park",
        limit_bytes=2000,
    )
    batches: list[Batch] = []
    intake.attach(batches.append)
    intake.take(record(PLACE, 0, {"id": 1}, {"id": 1}))
    for offset in range(1, 11):
        intake.take(record(PLACE, offset, {"id": 2}, {"unknown": "x" * 1000}))
    batches.append(intake.batch())
    assert len(batches) > 1
    parts = [part for batch in batches for part in batch.parts]
    assert [part.is_last for part in parts] == [True]
    assert [len(batch.parts) for batch in batches][-1] == 1
    assert sum(len(batch.parked) for batch in batches) == 10
    assert [batch.position for batch in batches[:-1]] == [None] * (len(batches) - 1)
