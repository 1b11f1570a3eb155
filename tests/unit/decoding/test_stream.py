"""The few facts that are cut out of wal2json's lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.stream import Action
from pgrepl.decoding.wal2json import Wal2JsonStream
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from tests.support.messages.lines import begin, change

plugin = Wal2JsonStream()
# PostgreSQL's names: anything but NUL, and no lone surrogates in UTF-8.
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(names, names, st.sampled_from("IUDT"))
def test_table_name_is_read_whatever_its_characters(schema, table, action):
    message = change(action, table, schema=schema)
    assert plugin.table_name(message, "utf-8") == (schema, table)


@given(st.tuples(names, names), st.tuples(names, names))
def test_whole_keys_of_different_tables_differ(one, other):
    keys = [plugin.table_key(change("I", table, schema=schema)) for schema, table in (one, other)]
    if all(map(plugin.is_whole_key, keys)):
        assert (keys[0] == keys[1]) == (one == other)


@given(names, names)
def test_key_is_whole_unless_a_name_needs_escapes(schema, table):
    key = plugin.table_key(change("I", table, schema=schema))
    is_plain = "\\" not in json.dumps(schema + table, ensure_ascii=False)
    assert plugin.is_whole_key(key) or not is_plain


@given(st.text())
def test_columns_never_disturb_the_key(value):
    with_value = change("I", "t", note=value)
    assert plugin.table_key(with_value) == plugin.table_key(change("I", "t"))


@given(st.binary(max_size=200))
def test_any_bytes_give_no_name_but_an_error(message):
    assert not plugin.is_whole_key(plugin.table_key(message))
    with pytest.raises(SpoolError):
        plugin.table_name(message, "utf-8")


@given(st.integers(min_value=1, max_value=2**64 - 1000))
def test_position_alone_is_read_as_with_the_rest(position):
    message = begin(position)
    assert plugin.commit_lsn(message) == plugin.transaction(message).commit_lsn


def test_other_bytes_have_no_position():
    for message in (b"", b'{"action":"B"}', b'{"action":"B","xid":1,"lsn":"0/"}'):
        assert plugin.commit_lsn(message) is None
        assert not plugin.is_begin(message)


def test_begin_tells_position_and_time():
    transaction = plugin.transaction(begin(0x100, at="2000-01-01 00:00:01+00"))
    assert transaction == (Lsn(0x100), Lsn(0x130), 1_000_000, 7)


@pytest.mark.parametrize("at", [b"yesterday", b"\xc1"])
def test_begin_whose_time_is_none_is_refused(at):
    with pytest.raises(SpoolError, match="begin message"):
        plugin.transaction(begin(0x100, at="now").replace(b"now", at))


@given(st.binary(max_size=100))
def test_begin_of_any_other_bytes_is_refused(message):
    with pytest.raises(SpoolError):
        plugin.transaction(message)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        *((letter, Action.CHANGE) for letter in "IUD"),
        ("T", Action.TRUNCATE),
        ("B", Action.BEGIN),
        ("C", Action.COMMIT),
        ("M", Action.MESSAGE),
    ],
)
def test_action_is_told_by_the_first_bytes(action, expected):
    message = change(action, "t")
    assert plugin.is_message(message)
    assert plugin.actions[message[plugin.action_at]] is expected


def test_best_options_come_first_and_all_are_of_format_2():
    better, plain = plugin.option_sets("pgrepl_shop")
    assert set(better) - set(plain) == {"numeric-data-types-as-string"}
    assert plain["format-version"] == "2"
    assert plain["include-types"] == "0"


@pytest.mark.parametrize(
    ("notice", "table"),
    [
        ('no tuple identifier for UPDATE in table "public"."t"', 'public"."t'),
        ('no tuple identifier for DELETE in table "a"."b"."c"', 'a"."b"."c'),
        ('no tuple data for UPDATE in table "public"."t"', 'public"."t'),
        ("something else", None),
    ],
)
def test_warning_of_a_lost_change_names_its_table(notice, table):
    assert plugin.lost_table(notice) == table


@pytest.mark.parametrize(
    ("notice", "value"),
    [
        ("special value: NaN", b"NaN"),
        ("special value: -Infinity", b"-Infinity"),
        ('special value: "}', None),
        ("received replication command", None),
    ],
)
def test_notice_of_a_special_value_is_read_strictly(notice, value):
    assert plugin.special_value(notice) == value
