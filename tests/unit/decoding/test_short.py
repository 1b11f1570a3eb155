"""Lines go into the spool without what they have in common, and come out as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.wal2json import Wal2JsonStream, short
from pgrepl.decoding.wal2json.short import FORMAT, expand, lines_of, shorten
from pgrepl.errors import SpoolError
from pgrepl.native import native
from tests.support.examples import examples
from tests.support.messages.lines import begin, change

pytestmark = pytest.mark.skipif(native is None, reason="it is compiled code that writes it")


def cut(lines: list[bytes]) -> bytes | None:
    """Let what is compiled shorten lines, however few they are."""
    assert native is not None
    return native.shorten(lines)


def short_of(lines: list[bytes]) -> bytes:
    payload = cut(lines)
    assert payload is not None
    return payload


VALUES = st.one_of(
    st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.sampled_from(['"', "\\", "\t"])
)
NAMES = st.sampled_from(["id", "value", "xid", 'odd "name"', '"value":1', "\\", "ü"])


@st.composite
def transactions(draw):
    lines = []
    for number in range(draw(st.integers(1, 8))):
        lines.append(begin(0x100 + number, at=draw(st.sampled_from(["a", "b"]))))
        for _ in range(draw(st.integers(1, 4))):
            columns = draw(st.dictionaries(NAMES, VALUES, max_size=4))
            lines.append(change(draw(st.sampled_from("IUD")), draw(NAMES), **columns))
    return lines


def many_lines() -> list[bytes]:
    """Lines of several tables and transactions, as the receiver gathers them."""
    found = []
    for number in range(20):
        found.append(begin(0x1000 + number))
        found += [change("U", table, id=number, note="n" * number) for table in ("a", "b")]
    return found


def outcome(read, payload):
    """Return what reading gives; None: it is refused."""
    try:
        return read(payload)
    except SpoolError:
        return None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(transactions())
def test_lines_come_out_as_they_went_in(lines):
    payload = short_of(lines)
    assert expand(payload) == lines_of(payload) == b"\n".join(lines)


@given(st.lists(st.binary(max_size=40)))
def test_whatever_is_no_line_comes_out_as_it_went_in(lines):
    lines = [b"{" + line for line in lines]
    payload = cut(lines)
    assert payload is None or expand(payload) == b"\n".join(lines)


def test_names_are_written_once():
    lines = many_lines()
    payload = short_of(lines)
    assert payload.count(b'"note"') == 2
    assert len(payload) < len(b"\n".join(lines)) / 2


def test_a_value_with_a_control_character_leaves_its_line_as_it_is():
    lines = [*many_lines(), b'{"action":"I","xid":7,"columns":[{"name":"a","value":"\t"}]}']
    payload = short_of(lines)
    assert payload.endswith(lines[-1])
    assert lines_of(payload) == b"\n".join(lines)


def test_more_tables_than_patterns_leave_their_lines_as_they_are():
    lines = [begin(0x100), *(change("I", f"t_{n}", id=n) for n in range(300))]
    payload = short_of(lines)
    assert payload.count(b"\n=") == 128
    assert lines_of(payload) == expand(payload) == b"\n".join(lines)


def test_as_many_columns_as_a_table_can_have():
    columns: dict[str, Any] = {f"c{number}": number for number in range(1600)}
    lines = [begin(0x100), *(change("I", "t", **columns) for _ in range(9))]
    payload = short_of(lines)
    assert lines_of(payload) == expand(payload) == b"\n".join(lines)


@examples(75)
@given(st.data())
def test_a_corrupted_payload_is_read_alike(data):
    """Both refuse it, or read the same out of it."""
    payload = bytearray(short_of(many_lines()))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        new = data.draw(st.sampled_from([b"", b"\n", b"\t", b"\n=\t", b"\n0", b"\n{", b"9", b"#"]))
        payload[at : at + data.draw(st.integers(0, 4))] = new
    if payload.startswith(b"#"):
        assert outcome(lines_of, bytes(payload)) == outcome(expand, bytes(payload))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"#", "does not say its size"),
        (b"#1", "shorter"),
        (b"#x\n{}", "does not say its size"),
        (b"#99999999999999\n{}", "does not say its size"),
        (b"#2\n{}\n{}", "longer"),
        (b"#2\n0\t1", "no pattern"),
        (b"#4\n={\t}\n0", "not the values"),
        (b"#4\n={\t}\n0\t", "missing"),
        (b"#4\n={}", "pattern cannot be read"),
        (b"#4\n" + b"=\t\n" * 129, "pattern cannot be read"),
    ],
)
@pytest.mark.parametrize("is_native", [False, True])
def test_what_the_receiver_did_not_write_is_refused(payload, reason, is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(short, "native", None)
    with pytest.raises(SpoolError, match=reason):
        lines_of(payload)


def test_a_receiver_says_how_its_payloads_are_read():
    stream = Wal2JsonStream()
    lines = many_lines()
    short_format, (payload,) = stream.payload(lines)
    assert short_format == FORMAT
    assert stream.payload(lines[:3]) == ("wal2json", (b"\n".join(lines[:3]),))
    decoder = payload_decoder(FORMAT, "UTF8")
    assert decoder.split(payload) == lines
    assert decoder.extract(payload, ("public", "b")) == [
        line for line in lines if b'"table":"a"' not in line
    ]
    # Rows of both formats are read together.
    assert decoder is payload_decoder("wal2json", "UTF8")


def test_without_compiled_code_lines_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(short, "native", None)
    assert shorten(many_lines()) is None


def test_lines_are_json_again():
    payload = short_of(many_lines())
    assert [json.loads(line)["action"] for line in expand(payload).split(b"\n")[:3]] == list("BUU")
