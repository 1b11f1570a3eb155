"""A mask gives the same here as on the source, for every value that a type can have."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.sql import SQL

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.config.rules import Mask, Salt
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.stream import PgoutputStream
from pgrepl.decoding.wal2json.stream import Wal2JsonStream
from pgrepl.masking import mask_expression, mask_value, set_salts
from pgrepl.postgres.connect import connect
from tests.support.running.ruled import SALT

HASH = Mask("hash", salt=Salt(SALT))
#: Type, what makes PostgreSQL's text of a value, constants as the type prints them.
TYPES = {
    "text": (
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        ["ü\\'\""],
    ),
    "varchar": (st.text(st.characters(max_codepoint=300, exclude_characters="\0")), ["", "null"]),
    "integer": (st.integers(-(2**31), 2**31 - 1).map(str), ["0", "-7"]),
    "numeric": (st.decimals(allow_nan=False, allow_infinity=False).map(str), ["1.50"]),
    "boolean": (st.sampled_from(["true", "false"]), ["true"]),
    "date": (st.dates().map(str), ["1970-01-01"]),
    "timestamptz": (st.datetimes().map(str), ["2000-01-01 00:00:00+00"]),
    "float8": (st.floats(allow_nan=False).map(repr), ["0.1"]),
    "jsonb": (st.integers().map(json.dumps), ['{"a": 1}']),
}


@pytest.fixture(scope="module")
def session(source_cluster):
    """Return one session for all values."""
    endpoint = Endpoint(Side.SOURCE, "s", Dsn(source_cluster.dsn()))
    with connect(endpoint, "test") as connection:
        set_salts(connection, [Salt(SALT)])
        yield connection


def ask(
    session, type_name: str, mask: Mask, value: str | None
) -> tuple[bytes | None, bytes | None]:
    """Return a value's text on the server, and that of what the expression makes of it."""
    statement = SQL("select v::text, ({})::text from (select %s::{} as v) t").format(
        mask_expression(mask, SQL("v")), SQL(type_name)
    )
    ((text, masked),) = session.execute(statement, (value,)).fetchall()
    return (
        None if text is None else text.encode(),
        None if masked is None else masked.encode(),
    )


@pytest.mark.parametrize("type_name", TYPES)
def test_mask_here_equals_the_expression_on_the_server(session, type_name):
    values, constants = TYPES[type_name]
    masks = [Mask("null"), *(Mask("constant", text) for text in constants)]
    masks += [HASH] if type_name in ("text", "varchar") else []

    @settings(
        max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.none() | values, st.sampled_from(masks))
    def check(value, mask):
        text, masked = ask(session, type_name, mask, value)
        assert mask_value(mask, text, "utf-8") == masked

    check()


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda pair: pair[0],
    ),
    st.data(),
)
def test_changes_of_both_plugins_are_masked_alike_and_elsewhere_untouched(row, data):
    names = [name for name, _ in row]
    kinds = st.sampled_from([Mask("null"), Mask("constant", 'x"\\\n'), HASH, Mask("omit")])
    masks = data.draw(st.dictionaries(st.sampled_from(names), kinds))
    texts = [
        (name, _masked(masks[name], value) if name in masks else value)
        for name, value in row
        if name not in masks or masks[name].kind != "omit"
    ]
    entries = [{"name": name, "value": value} for name, value in row]
    line = (
        '{"action":"U","xid":1,"timestamp":"2026-01-01 00:00:00+00","lsn":"0/1","schema":"a",'
        f'"table":"b","columns":{_json(entries)},"identity":{_json(entries)}}}'
    )
    masked = json.loads(Wal2JsonStream().mask(line.encode(), masks, "utf-8"))
    for key in ("columns", "identity"):
        assert [(item["name"], item["value"]) for item in masked[key]] == texts
    stream = PgoutputStream()
    stream.learn(writing.relation(7, ("a", "b"), names, names), "utf-8")
    values = [None if value is None else value.encode() for _, value in row]
    change = writing.update(7, values, old=values)
    wanted = [None if text is None else text.encode() for _, text in texts]
    assert stream.mask(change, masks, "utf-8") == writing.update(7, wanted, old=wanted)
    kept = [name for name, _ in texts]
    (head,) = stream.heads_of(change, masks).values()
    assert head == writing.relation(7, ("a", "b"), kept, kept)
    assert stream.heads_of(change, masks)[head[1:5]] is head


def _masked(mask: Mask, value: str | None) -> str | None:
    masked = mask_value(mask, None if value is None else value.encode(), "utf-8")
    return None if masked is None else masked.decode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
