"""Texts of captured DDL without values of rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgrepl.ddl_capture.decode.ddl_texts import NOT_SHOWN, ddl_texts
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.decode.statement import find_statement

SECRET = "CANARY"
MADE = "create table z (a int)"
INSERT = f"insert into t values ('{SECRET}')"


def event(**changes: Any) -> CapturedEvent:
    row = {"id": "1", "kind": "end", "tag": "CREATE TABLE", "xid": "7", "invoker": "ann"}
    return decode_event({**row, "query": MADE, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"query": f"{INSERT}; {MADE}; {INSERT}", "ordinal": "1"},
        {"query": f"create table y (b int); {INSERT}; {MADE}", "ordinal": "2"},
        {"query": f"{MADE}; rollback; {INSERT}; begin; {MADE}", "ordinal": "1"},
        {"query": f"select f('{SECRET}')", "context": f'SQL statement "{MADE}"\nx {SECRET}'},
        {
            "query": f"select f('{SECRET}')",
            "context": f'SQL statement "{INSERT}; {MADE}"\nPL/pgSQL function f() line 1',
            "ordinal": "1",
        },
        {
            "query": f"select f('{SECRET}')",
            "context": f'SQL function "f" statement 2\nSQL statement "select f(\'{SECRET}\')"',
            "bodies": json.dumps([f"{INSERT}; {MADE}"]),
        },
        {
            "query": f"insert into t values ('it\\'s {SECRET}'); {MADE}",
            "ordinal": "1",
            "settings": '{"standard_conforming_strings": "off"}',
        },
    ],
)
def test_statement_is_found_in_what_is_left_and_no_value_is(changes):
    given = event(**changes)
    texts = ddl_texts(given)
    kept = event(**{**changes, **texts})
    assert SECRET not in repr(kept)
    assert find_statement(kept).text == find_statement(given).text == MADE
    # Who looks twice finds nothing more.
    assert ddl_texts(kept) == {}


def test_text_of_nothing_but_ddl_stays_as_it_is():
    text = f"-- a comment\n{MADE};\ncreate index on z (a)"
    assert ddl_texts(event(query=text, ordinal="1")) == {}


@pytest.mark.parametrize("query", [f"not to be parsed '{SECRET}'", INSERT])
def test_text_that_shows_no_ddl_is_not_kept(query):
    assert ddl_texts(event(query=query)) == {"query": NOT_SHOWN}
