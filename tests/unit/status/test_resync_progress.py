"""How far a resync is, and how long it takes still."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.cli.output.status_lines import _resync
from pgrepl.resync.chunked.pacing import estimate_chunks
from pgrepl.store.monitoring.overview import TableOverview
from pgrepl.store.resync.running_resyncs import Amount
from pgrepl.store.tables.unselected import UNSELECTED
from tests.unit.monitor.test_alerts import TABLE

CHUNKED: TableOverview = replace(
    TABLE,
    resync_way="chunked",
    resync_state="copying",
    resync_chunks=12,
    resync_chunk_estimate=40,
    resync_rows=60_000,
    resync_row_estimate=200_000,
    resync_bytes=6 << 20,
    resync_estimate=24 << 20,
    resync_seconds=4000.0,
    resync_rows_before=20_000,
    resync_bytes_before=2 << 20,
    resync_run_seconds=4.0,
)


def test_pace_is_that_of_the_present_run():
    assert CHUNKED.resync_rows_per_s == 10_000
    assert CHUNKED.resync_bytes_per_s == 1 << 20
    assert CHUNKED.resync_seconds_left == 14
    # A table that was never analyzed has no estimate of rows.
    assert replace(CHUNKED, resync_row_estimate=0).resync_seconds_left == 18
    assert replace(CHUNKED, resync_state="copied").resync_seconds_left is None
    assert replace(CHUNKED, resync_run_seconds=None).resync_bytes_per_s is None


def test_line_says_chunks_rows_bytes_pace_and_time_left():
    assert _resync(CHUNKED) == (
        "resync (chunked) copying, 12 of about 40 chunks, 60,000 of about 200,000 rows,"
        " 6.0 MB of about 24 MB, 1.0 MB/s, about 14.0 s left"
    )
    whole = replace(CHUNKED, resync_way="whole", part_count=4, done_count=1)
    assert _resync(whole).startswith("resync (whole) copying, 1 of 4 parts, 60,000 of")


def test_chunks_are_expected_by_rows_or_else_by_bytes():
    assert estimate_chunks(Amount(0, 0, 0, 10, 10), 5) is None
    assert estimate_chunks(Amount(10, 0, 2, 8, None), 5) == 2
    assert estimate_chunks(Amount(10, 100, 2, None, None), 5) is None


def test_table_that_the_patterns_lose_needs_no_resync():
    assert not replace(TABLE, resync_reason=UNSELECTED).needs_resync
    assert replace(TABLE, resync_reason="lost").needs_resync
    assert replace(TABLE, resync_reason=UNSELECTED, due_reason="random()").needs_resync
