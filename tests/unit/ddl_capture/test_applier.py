"""What the applier remembers between two events."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pgrepl.config.dsn import Dsn
from pgrepl.config.model import Config, ReplayConfig, SparkConfig, TargetConfig
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture import Applier
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.store.sources import SourceRow

SOURCE = SourceRow(1, "shop", "pgrepl_shop", "shop", 1, 1, "streaming", Lsn(1))
DROPPED = {
    "type": "table",
    "schema": "app",
    "names": ["app", "a"],
    "identity": "app.a",
    "is_original": True,
}
ROW = {
    "id": "7",
    "kind": "drop",
    "tag": "DROP TABLE",
    "xid": "700",
    "path": "[]",
    "invoker": "alice",
    "extensions": "{}",
    "dropped": json.dumps([DROPPED]),
}
EVENT = CapturedDdl(source=SOURCE, commit_lsn=Lsn(5), commit_at="2026-11-16", row=ROW)


@pytest.fixture
def applier() -> Applier:
    config = Config(
        path=Path("pgrepl.toml"),
        target=TargetConfig(dsn=Dsn("dbname=w")),
        spark=SparkConfig(),
        replay=ReplayConfig(),
        sources={},
    )
    return Applier(config)


def remembered(applier: Applier, *sources: SourceRow, **columns: Any) -> int:
    # An event before a command's end touches no connection.
    source = sources[0] if sources else SOURCE
    event = replace(EVENT, source=source, row={**ROW, **columns})
    applier.apply(cast("Any", None), event)
    return len(applier._open[source.source_id].dropped)


def test_drops_of_one_command_add_up(applier):
    assert remembered(applier) == 1
    assert remembered(applier, id="8") == 2


def test_transaction_that_begins_again_begins_with_nothing(applier):
    assert remembered(applier) == 1
    assert remembered(applier) == 1


def test_other_transaction_begins_with_nothing(applier):
    assert remembered(applier) == 1
    assert remembered(applier, id="8", xid="701") == 1


def test_sources_that_take_turns_keep_their_own(applier):
    other = replace(SOURCE, source_id=2)
    assert remembered(applier) == 1
    assert remembered(applier, other) == 1
    assert remembered(applier, id="8") == 2
    assert remembered(applier, other, id="8") == 2


@pytest.mark.parametrize("column", ["id", "kind", "invoker"])
def test_row_that_the_triggers_do_not_write_is_refused(applier, column):
    with pytest.raises(SpoolError):
        remembered(applier, **{column: None})
