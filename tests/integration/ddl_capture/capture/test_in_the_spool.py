"""What the triggers write reaches the spool in its place."""

from __future__ import annotations

import pytest

from pgrepl.config.file import load_config
from pgrepl.ddl_capture import install
from tests.support.running.receiving import stream_from

__all__ = ["stream_from"]


@pytest.fixture
def streaming(source, stream_from):
    source.execute("create schema app", "create table app.a (id int primary key)")
    begun = stream_from(source)
    install(load_config(begun.config).source(begun.name))
    return begun


def test_transaction_with_ddl_is_serial_and_keeps_its_order(streaming):
    streaming.source.execute("insert into app.a values (1)")
    streaming.source.execute(
        "begin; insert into app.a values (2); alter table app.a add b int;"
        " insert into app.a values (3, 3); commit",
        "insert into app.a values (4, 4)",
    )
    streaming.receive_once()
    kinds = streaming.target.rows("select kind from replication.raw_messages order by seq, part")
    assert [kind for (kind,) in kinds] == ["parallel", "serial", "parallel"]
    places = [(line["schema"], line["table"]) for line in streaming.lines()]
    log, rows = ("pgrepl", "ddl_log"), ("app", "a")
    assert places == [rows, rows, log, rows, rows]


def test_pruning_the_log_makes_nothing_serial(streaming):
    streaming.source.execute("create table app.b (id int)")
    streaming.source.execute("delete from pgrepl.ddl_log")
    streaming.source.execute("insert into app.a values (1)")
    streaming.receive_once()
    kinds = streaming.target.rows("select kind from replication.raw_messages order by seq, part")
    assert [kind for (kind,) in kinds] == ["serial", "parallel"]
