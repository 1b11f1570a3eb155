"""Rows of ``pgrepl.ddl_log``, whatever their owner wrote into them: read, or refused as such."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.ddl_capture.decode.ddl_texts import ddl_texts
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.decode.filled import FILLED, find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.errors import SpoolError
from pgrepl.syntax.parse import SqlSyntaxError, quoted_names
from tests.support.examples import examples
from tests.unit.ddl_capture.test_definition import REPORTED

#: As PostgreSQL has them: neither the character NUL nor halves of others.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NAMES = st.one_of(
    st.sampled_from(['"', "\n", "%s", "\\", "''", "a" * 63, "ä" * 31, "select", "$$", "\x1b[2J"]),
    TEXTS.filter(lambda name: 0 < len(name.encode()) < 64),
)
#: What JSON can hold, and Python's reader takes for it.
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def row_of(schema: str, name: str) -> dict[str, str | None]:
    """Return the row of a table that was made, as the triggers write it."""
    table = {**REPORTED, "schema": schema, "name": name, "root": [schema, name], "parents": None}
    touched = {"tag": "CREATE TABLE", "type": "table", "schema": schema, "name": name}
    dropped = {"type": "table", "schema": schema, "names": [schema, name], "is_original": True}
    return {
        "id": "17",
        "kind": "end",
        "tag": "CREATE TABLE",
        "xid": "7",
        "query": f"create table {quoted_names(schema, name)} (id int)",
        "context": None,
        "bodies": None,
        "ordinal": "1",
        "path": json.dumps([schema]),
        "invoker": name,
        "extensions": json.dumps({name: schema}),
        "objects": json.dumps([{**touched, "identity": quoted_names(schema, name)}]),
        "dropped": json.dumps([{**dropped, "identity": quoted_names(schema, name)}]),
        "rewritten": json.dumps({"schema": schema, "name": name, "reason": 1}),
        "tables": json.dumps([table]),
        "settings": json.dumps({"standard_conforming_strings": "on"}),
        "locale": name,
        "homonyms": json.dumps({"functions": [name], "operators": [], "has_casts": False}),
    }


COLUMNS = sorted(row_of("app", "t"))


def use(event: CapturedEvent) -> None:
    """Do with an event what asks nothing of a server."""
    ddl_texts(event)
    with suppress(UnknownStatementError, SqlSyntaxError):
        find_statement(event)
        if event.tag in FILLED:
            find_filled_table(event)
    repr(event).encode()


@given(NAMES, NAMES)
def test_names_come_out_as_they_are(schema, name):
    event = decode_event(row_of(schema, name))
    use(event)
    (touched,), (dropped,), (table,) = event.objects, event.dropped, event.tables
    assert (touched.schema, touched.name) == tuple(dropped.names) == table.key == (schema, name)
    relation = find_statement(event).tree.create_stmt.relation
    assert (relation.schemaname, relation.relname) == (schema, name)


@examples(200)
@given(st.data())
def test_row_with_anything_in_it_is_read_or_refused(data):
    row = row_of("app", "t")
    for column in data.draw(st.sets(st.sampled_from(COLUMNS), min_size=1, max_size=3)):
        row[column] = data.draw(st.none() | TEXTS | JSON.map(json.dumps), label=column)
    with suppress(SpoolError):
        use(decode_event(row))


@examples(200)
@given(st.data())
def test_field_with_anything_in_it_is_read_or_refused(data):
    row = row_of("app", "t")
    column = data.draw(
        st.sampled_from(["objects", "dropped", "rewritten", "tables", "homonyms", "settings"])
    )
    value = json.loads(row[column] or "")
    part = value[0] if isinstance(value, list) else value
    for key in data.draw(st.sets(st.sampled_from(sorted(part)), min_size=1)):
        part[key] = data.draw(JSON, label=key)
    with suppress(SpoolError):
        use(decode_event({**row, column: json.dumps(value)}))


#: What no trigger writes, and what would be met later, far from where it was read.
UNREADABLE: dict[str, str] = {
    "path": "5",
    "bodies": '["select 1", 2]',
    "extensions": '["plpgsql"]',
    "settings": '{"standard_conforming_strings": null}',
    "ordinal": "-3",
    "objects": '[{"tag": 1, "type": "table", "schema": "a", "name": "t", "identity": "a.t"}]',
    "dropped": '[{"identity": "", "type": "index", "schema": "", "names": 3, "is_original": true}]',
    "rewritten": '{"schema": "a", "name": "t", "reason": "4"}',
    "homonyms": '{"functions": null, "operators": [], "has_casts": false}',
}


@pytest.mark.parametrize("column", UNREADABLE)
def test_value_of_another_type_is_refused_where_it_is_read(column):
    with pytest.raises(SpoolError, match="not what the triggers"):
        decode_event({**row_of("app", "t"), column: UNREADABLE[column]})


@pytest.mark.parametrize("character", [r"\u0000", r"\ud800"])
def test_character_that_no_text_can_have_is_refused(character):
    with pytest.raises(SpoolError, match="not what the triggers"):
        decode_event({**row_of("app", "t"), "path": f'["a{character}"]'})


def test_backslash_before_digits_is_a_text_like_others():
    assert decode_event({**row_of("app", "t"), "path": r'["\\u0000", "\u001b"]'}).path == [
        r"\u0000",
        "\x1b",
    ]


def test_what_has_no_identity_is_read():
    """As a GRANT on tables, or what was dropped and has no address."""
    granted = {"tag": "GRANT", "type": "TABLE", "schema": None, "name": None, "identity": None}
    event = decode_event({**row_of("app", "t"), "objects": json.dumps([granted])})
    assert event.objects[0].tag == "GRANT"


@pytest.mark.parametrize("number", ["0", "9" * 5000, "\u0661"])
def test_statement_of_a_function_that_no_server_counts_is_unknown(number):
    row = {**row_of("app", "t"), "context": f'SQL function "f" statement {number}'}
    event = decode_event({**row, "bodies": '["create table app.t (id int)"]'})
    with pytest.raises(UnknownStatementError):
        find_statement(event)
