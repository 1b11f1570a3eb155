"""Which tables of a source a command ended without dropping them."""

from __future__ import annotations

import json

import pytest

from pgrepl.ddl_capture.apply.forgetting import find_replaced
from pgrepl.ddl_capture.decode.event import decode_event


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        ('"_RETURN" on app.t', [("app", "t")]),
        ('"_RETURN" on "a b"."on "" x"', [("a b", 'on " x')]),
        ("other on app.t", []),
    ],
)
def test_table_that_a_rule_makes_a_view_of_is_none_any_more(rule, tables):
    made = {"tag": "CREATE RULE", "type": "rule", "schema": "app", "name": None, "identity": rule}
    row = {
        "id": "7",
        "kind": "end",
        "tag": "CREATE RULE",
        "xid": "700",
        "path": "[]",
        "invoker": "alice",
        "extensions": "{}",
        "objects": json.dumps([made]),
    }
    found = find_replaced(decode_event(row))
    assert [(item.type, item.names) for item in found] == [("table", name) for name in tables]
