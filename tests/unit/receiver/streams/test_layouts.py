"""The tables that records are for, and how often they are looked at."""

from __future__ import annotations

from typing import cast

import pytest

from pgrepl.decoding.records.columns import HandlingModes
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.streams.layouts import Layouts
from pgrepl.receiver.streams.target_tables import TargetTables
from tests.support.streams.stream_intake import KnownTables


class CountingTables(KnownTables):
    """Counts how often all of them have to be asked for again."""

    def __init__(self):
        super().__init__({"orders": {"id": "integer"}})
        self.count = 0

    def forget(self):
        self.count += 1


def test_target_is_not_asked_for_each_of_many_records_with_an_unknown_column():
    tables = CountingTables()
    layouts = Layouts(cast("TargetTables", tables), HandlingModes({}))
    for number in range(1000):
        with pytest.raises(BadValue, match="has no column"):
            layouts.found(("public", "orders"), ("id", f"c{number}"), ("id",), is_whole=False)
    assert 1 <= tables.count < 100
