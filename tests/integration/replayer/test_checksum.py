"""A payload of the spool that is not as it was written is never applied, whatever it says."""

from __future__ import annotations

import pytest

from pgrepl.errors import SpoolError
from pgrepl.replayer import ReplaySettings
from tests.support.running.pipeline import Pipeline

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05, lock_timeout_s=0.3)

#: Another value of the same length: every message of it can still be read.
CHANGED = (
    "update replication.raw_messages set payload ="
    " overlay(payload placing 'Sold'::bytea from position('gold'::bytea in payload))"
)


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_value_that_was_changed_in_the_spool_is_never_applied(source, target, plugin):
    source.execute("create table t (id int primary key, v text)")
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    source.execute("insert into t values (1, 'gold')")
    pipeline.receive()
    target.execute(CHANGED)
    result = pipeline.replay(QUICK)
    assert isinstance(result.error, SpoolError)
    assert result.error.exit_code == 40
    assert "is not as it was written" in result.error.message
    assert pipeline.target.value(f"select count(*) from {pipeline.schema()}.t") == 0
    assert pipeline.parked() == []


def test_truncating_transaction_that_was_changed_in_the_spool_is_never_applied(source, target):
    source.execute("create table t (id int primary key, v text)")
    pipeline = Pipeline(source, target)
    pipeline.copy()
    source.execute("begin; insert into t values (1, 'gold'); truncate t; end")
    pipeline.receive()
    target.execute(CHANGED)
    result = pipeline.replay(QUICK)
    assert isinstance(result.error, SpoolError)
    assert "is not as it was written" in result.error.message


def test_row_of_a_receiver_that_wrote_no_checksum_is_applied(source, target):
    source.execute("create table t (id int primary key, v text)")
    pipeline = Pipeline(source, target)
    pipeline.copy()
    source.execute("insert into t values (1, 'gold')")
    pipeline.receive()
    target.execute("update replication.raw_messages set payload_crc = null")
    assert pipeline.replay(QUICK).error is None
    assert pipeline.differences() == []
