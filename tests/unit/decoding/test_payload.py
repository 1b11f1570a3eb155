"""Lines become values for COPY, exactly, and corruption is noticed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.payload import ChangesByTable
from pgrepl.decoding.wal2json import Wal2JsonPayload, table_changes
from pgrepl.decoding.wal2json.grammar import table_key
from pgrepl.errors import SpoolError
from pgrepl.native import native
from pgrepl.replayer.target_table import Table
from tests.support.messages.lines import begin
from tests.support.messages.replay_lines import column, line, read, shape
from tests.unit.replayer.test_fold import text_of

WAL2JSON = Wal2JsonPayload("UTF8")
T = ("public", "t")
WIDE = shape(
    column("n", "integer"),
    column("f", "float"),
    column("b", "bytea"),
    column("text"),
    column("yes", "boolean"),
    column("g", is_generated=True),
    key=("n",),
)


def values(row, **old):
    (run,) = read(WIDE, [line("U", row, old or {"n": 1})]).runs
    (change,) = run.changes
    return dict(zip(run.layout.columns, run.layout.values(change), strict=True))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_every_text_arrives(text):
    found = values({"n": 1, "text": text})
    assert text_of(found["text"]) == text


@pytest.mark.parametrize("core", [native, None])
def test_text_that_looks_like_the_end_of_its_line_is_a_text(monkeypatch, core):
    """The first line has a column less: unchanged, and stored out of line."""
    monkeypatch.setattr(table_changes, "native", core)
    both = shape(column("id", "integer"), column("a"), column("b"), key=("id",))
    lines = [
        line("U", {"id": 1, "a": "x"}, {"id": 1}),
        line("U", {"id": 2, "a": "}]}", "b": "y"}, {"id": 2}),
        line("U", {"id": 3, "a": "}]}"}, {"id": 3}),
    ]
    table = Table(T, is_copied=True, is_parked=False, start=None, shape=both)
    grouped = WAL2JSON.group_by_table(lambda _: table)
    grouped.take_payload(b"\n".join([begin(1), *lines]), len(lines), 0)
    runs = grouped.changes[T].runs
    assert [(run.layout.columns, run.changes) for run in runs] == [
        (("id", "a"), [(b"U", b"1", b"x", b"1")]),
        (("id", "a", "b"), [(b"U", b"2", b"}]}", b"y", b"2")]),
        (("id", "a"), [(b"U", b"3", b"}]}", b"3")]),
    ]


def test_numbers_keep_their_digits_and_null_is_no_text():
    raw = line("I", {"n": 1, "f": 1, "b": "00ff", "text": None, "g": "x"}).replace(
        b'"f","value":1', b'"f","value":123456789012345678901234567890.10'
    )
    (run,) = read(WIDE, [raw]).runs
    assert run.layout.columns == ("n", "f", "b", "text")
    assert run.layout.values(run.changes[0]) == (
        b"1",
        b"123456789012345678901234567890.10",
        rb"\\x00ff",
        rb"\N",
    )


def test_numbers_as_texts_are_the_same_numbers():
    assert values({"n": "17", "f": "NaN"}, n="17") == {"n": b"17", "f": b"NaN"}


@pytest.mark.parametrize(
    ("old", "row"),
    [
        ({"yes": True}, {"yes": False, "n": "17"}),
        ({"yes": True, "n": "16"}, {"yes": False, "n": "17"}),
        ({"yes": True, "n": None}, {"yes": False, "n": "17"}),
        ({"yes": True, "n": "16"}, {"yes": False, "n": None}),
    ],
)
def test_booleans_stay_bare_where_numbers_are_texts(old, row):
    own = shape(column("yes", "boolean"), column("n", "integer"), key=tuple(old))
    changes = read(own, [line("U", row, old), line("D", None, old), line("I", row)])
    assert changes.problem is None
    (first, *_) = (change for run in changes.runs for change in run.changes)
    assert changes.count == 3
    assert first[1:3] == (b"false", rb"\N" if row["n"] is None else b"17")


@pytest.mark.parametrize("number", [1, "1"], ids=["bare", "text"])
@pytest.mark.parametrize("column_name", ["n", "yes"])
def test_text_for_a_number_or_boolean_is_another_type(number, column_name):
    own = shape(
        column("id", "integer"), column("n", "integer"), column("yes", "boolean"), key=("id",)
    )
    row = {"id": number, "n": number, "yes": True} | {column_name: "new 3"}
    for lines in ([line("I", row)], [line("U", row, {"id": number})]):
        assert "has another type" in str(read(own, lines).problem)


def test_lines_of_many_layouts_stay_in_order():
    rows: list[dict[str, object]] = [
        {"n": 1, "text": "a"},
        {"n": 2},
        {"n": 3, "text": "b"},
        {"n": 4, "f": 1},
        {"n": 5},
    ]
    changes = read(WIDE, [line("U", row, {"n": row["n"]}) for row in rows])
    found = [
        dict(zip(run.layout.columns, run.layout.values(change), strict=True))["n"]
        for run in changes.runs
        for change in run.changes
    ]
    assert found == [b"1", b"2", b"3", b"4", b"5"]


def test_column_that_the_target_has_not_is_the_tables_problem_and_counts():
    changes = read(WIDE, [line("I", {"n": 1, "new": "x"}), line("I", {"n": 2, "new": "x"})])
    assert changes.count == 2
    assert 'has no column "new"' in str(changes.problem)


def test_table_that_the_target_has_not_is_its_problem():
    assert "no such table" in str(read(None, [line("I", {"n": 1})]).problem)


@pytest.mark.parametrize("name", ["t", 't"', "t.x", "t\\", 't":[', "ü ☃", 'a","table":"b', "t\n"])
def test_names_are_read_whatever_they_hold(name):
    made = line("I", {"n": 1}, names=("s,", name))
    assert WAL2JSON.names_of(made) == ("s,", name)
    assert table_key(made) in made


def test_begin_line_says_position_and_end():
    assert WAL2JSON.read_begin(begin(0x1_0000_0010)).commit_lsn == 0x1_0000_0010


def cut(payload: bytes, count: int) -> bytes:
    return payload[:count]


def grouped() -> ChangesByTable:
    table = Table(T, is_copied=True, is_parked=False, start=None, shape=WIDE)
    return WAL2JSON.group_by_table(lambda _: table)


PAYLOAD = b"\n".join(
    [
        begin(100),
        line("I", {"n": 1, "f": 1, "b": "", "text": "a", "g": None}),
        line("I", {"n": 2, "f": 1, "b": "", "text": "b", "g": None}),
        begin(200),
        line("D", None, {"n": 1}),
    ]
)


def test_payload_is_grouped_by_table():
    found = grouped()
    found.take_payload(PAYLOAD, 3, 0)
    assert found.changes[T].count == 3


@pytest.mark.parametrize("missing", range(1, len(PAYLOAD.split(b"\n")[-1]) + 1))
def test_payload_that_is_cut_off_anywhere_is_damage(missing):
    with pytest.raises(SpoolError, match="the spool is corrupted"):
        grouped().take_payload(PAYLOAD[:-missing], 3, 0)


def test_payload_without_one_of_its_lines_is_damage():
    lines = PAYLOAD.split(b"\n")
    with pytest.raises(SpoolError, match="should have 3 changes, it has 2"):
        grouped().take_payload(b"\n".join([*lines[:1], *lines[2:]]), 3, 0)


def test_payload_with_one_line_more_is_damage():
    with pytest.raises(SpoolError, match="the spool is corrupted"):
        grouped().take_payload(PAYLOAD + b"\n" + line("D", None, {"n": 2}), 3, 0)


@pytest.mark.parametrize("rest", [b"\ngarbage", b"\n{}", b"\n"])
def test_payload_with_more_than_lines_of_changes_is_damage(rest):
    with pytest.raises(SpoolError, match="the spool is corrupted"):
        grouped().take_payload(PAYLOAD + rest, 3, 0)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [(b'"name":"n"', b'"nAme":"n"'), (b'"action":"D"', b'"action":"X"'), (b"]}", b"}}")],
)
def test_line_that_is_not_wal2jsons_is_damage(was, becomes):
    head, last = PAYLOAD.rsplit(b"\n", 1)
    with pytest.raises(SpoolError, match="the spool is corrupted"):
        grouped().take_payload(head + b"\n" + last.replace(was, becomes), 3, 0)


def test_lines_of_one_table_are_extracted_with_their_transactions():
    other = line("I", {"n": 9}, names=("public", "other"))
    payload = b"\n".join([begin(50), other, *PAYLOAD.split(b"\n"), other])
    assert WAL2JSON.join(WAL2JSON.extract(payload, T)) == PAYLOAD
    assert WAL2JSON.extract(payload, ("public", "other")) == [begin(50), other, begin(200), other]
    assert WAL2JSON.extract(payload, ("public", "none")) == []


def test_text_holds_what_looks_like_a_line_and_is_none():
    inner = json.loads(json.dumps(line("D", None, {"n": 1}).decode()))
    row = {"n": 3, "f": 1, "b": "", "text": inner, "g": None}
    found = grouped()
    found.take_payload(b"\n".join([begin(1), line("I", row)]), 1, 0)
    assert found.changes[T].count == 1
