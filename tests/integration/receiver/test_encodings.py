"""Whatever bytes a source sends are received, and shown as far as they are text."""

from __future__ import annotations

import pytest

from pgrepl.decoding.wal2json.short import FORMAT, lines_of
from pgrepl.native import native


@pytest.fixture
def untold(source_cluster, make_database, stream_from):
    """Return a streaming source that does not say in which encoding its texts are."""
    database = make_database(source_cluster, prefix="ascii")
    database.make_anew("SQL_ASCII")
    database.execute("create table t (id int primary key, note text)")
    return stream_from(database)


def test_value_that_is_no_text_on_the_target_stops_nothing(untold):
    untold.source.execute(
        "insert into t values (1, 'before')",
        r"insert into t values (2, E'\xe9 \"\\ \n \x01')",
        "insert into t values (3, 'after ü')",
    )
    untold.receive_once()
    payloads = untold.target.rows("select format, encoding, payload from replication.raw_messages")
    assert {row[:2] for row in payloads} == {("wal2json", "SQL_ASCII")}
    assert b'"value":"\xe9 \\"\\\\ \\n \\u0001"' in b"".join(row[2] for row in payloads)
    untold.source.execute("insert into t values (4, 'later')")
    untold.receive_once()
    # One value is escaped; its neighbours are shown as they are.
    assert untold.target.rows(
        "select columns -> 0 ->> 'value', columns -> 1 ->> 'value'"
        " from replication.messages order by seq, part, number"
    ) == [
        ("1", "before"),
        ("2", '\\351 "\\ \n \x01'),
        ("3", "after ü"),
        ("4", "later"),
    ]


def test_text_in_another_encoding_is_spooled_as_it_came_and_shown_in_the_targets(
    source_cluster, make_database, stream_from
):
    database = make_database(source_cluster, prefix="latin")
    database.make_anew("LATIN1")
    with database.connect(client_encoding="UTF8") as connection:
        connection.execute("create table tête (id int primary key, note text)")
        streaming = stream_from(database)
        connection.execute("insert into tête values (1, 'élan')")
    streaming.receive_once()
    (line,) = streaming.lines()
    assert (line["table"], line["columns"][1]["value"]) == ("tête", "élan")
    ((encoding, payload),) = streaming.target.rows(
        "select encoding, payload from replication.raw_messages"
    )
    assert (encoding, b'"value":"\xe9lan"' in payload) == ("LATIN1", True)
    assert streaming.target.rows(
        "select table_name, columns -> 1 ->> 'value' from replication.messages"
    ) == [("tête", "élan")]


def test_lines_without_what_they_have_in_common_are_shown_as_they_came(untold):
    """Foreign bytes, nulls, quotes and what stands between values in the spool among them."""
    untold.source.execute(
        "insert into t select g, 'note ' || g from generate_series(1, 20) g",
        r"insert into t values (21, E'\xe9 \"\\ \n\t \x01 {=#'), (22, null), (23, '')",
        "delete from t where id < 3",
    )
    untold.receive_once()
    (row,) = untold.target.rows("select format, payload from replication.raw_messages")
    assert row[0] == ("wal2json" if native is None else FORMAT)
    assert untold.target.rows(
        "select xid is not null, commit_lsn < end_lsn, action, columns -> 0 ->> 'value',"
        " columns -> 1 ->> 'value', identity -> 0 ->> 'value'"
        " from replication.messages order by seq, part, number"
    ) == [
        *((True, True, "I", str(number), f"note {number}", None) for number in range(1, 21)),
        (True, True, "I", "21", '\\351 "\\ \n\t \x01 {=#', None),
        (True, True, "I", "22", None, None),
        (True, True, "I", "23", "", None),
        (True, True, "D", None, None, "1"),
        (True, True, "D", None, None, "2"),
    ]
    assert untold.target.value(
        "select replication.expand_lines(payload) from replication.raw_messages"
    ) == lines_of(row[1])
