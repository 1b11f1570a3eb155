"""Debezium's events as they were recorded: order, duplicates, ends, and what stands for TOAST."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest

from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.decoding.debezium.event import read_end, read_event
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.values import BadValue
from tests.support.streams.debezium_events import recorded
from tests.support.streams.debezium_made import end, event


def events(*runs):
    for run in runs:
        for topic, _, value in recorded(run):
            if value is not None and not topic.endswith((".transaction", ".message")):
                yield topic, read_event(json.loads(value))


def follow(found):
    """Return how many events were taken, and how many passed over, by topic as partitions are."""
    newest: dict[str, Newest] = {}
    counts = [0, 0]
    for topic, own in found:
        current = newest.get(topic, Newest())
        followed = current.follow(own)
        counts[followed is None] += 1
        newest[topic] = current.passed(own) if followed is None else followed
        assert Newest.load(json.loads(json.dumps(newest[topic].dump()))) == newest[topic]
    return counts


def without_order(found):
    """Return events as an older Debezium sends them: nobody counts them."""
    for topic, own in found:
        yield topic, own._replace(order=None)


def streamed(*runs):
    return ((topic, own) for topic, own in events(*runs) if own.op not in "rm")


@pytest.mark.parametrize("change", [lambda found: found, without_order])
def test_no_recorded_event_is_lost_and_what_came_again_is_passed_over(change):
    assert follow(change(streamed("run1", "run2"))) == [23, 0]
    # Killed in the middle of a transaction; four of its events came again.
    assert follow(change(streamed("run1", "run2", "run4", "run5"))) == [29, 4]
    # All of it once more.
    again = ["run1", "run2", "run4", "run5"]
    assert follow(change(streamed(*again, *again))) == [29, 4 + 33]


def made(op, lsn, row, last_commit=0):
    rows = {"after": row} if op == "c" else {"before": row}
    return "t", read_event(event(op, lsn=lsn, last_commit=last_commit, **rows))


def test_newest_events_that_come_again_alone_are_passed_over():
    copied = [made("c", 5, {"a": number}) for number in (1, 2, 3)]
    assert follow([*copied, *copied]) == [3, 3]
    assert follow([*copied, *copied, *copied, made("c", 6, {"a": 1})]) == [4, 6]
    # A key that changed: a delete and a create at one place.
    moved = [made("d", 7, {"a": 1}), made("c", 7, {"a": 4})]
    assert follow([*copied, *moved, *moved]) == [5, 2]
    deleted = made("d", 8, {"a": 4})
    assert follow([deleted, deleted, deleted]) == [1, 2]


def test_state_that_does_not_say_where_the_newest_counted_event_stands_goes_by_its_number():
    newest = Newest.load({"last_commit": 5, "place": 2, "count": 0})
    again, following = (
        read_event(event("c", after={"a": 1}, lsn=6 + order, last_commit=5, order=order))
        for order in (2, 3)
    )
    assert newest.follow(again) is None
    followed = newest.follow(following)
    assert followed is not None
    assert followed.follow(following) is None


def test_row_like_the_first_of_a_copy_is_left_open():
    newest = Newest()
    for _, own in (made("c", 5, {"a": 1}), made("c", 5, {"a": 2})):
        assert not newest.leaves_open(own)
        followed = newest.follow(own)
        assert followed is not None
        newest = followed
    first, other = made("c", 5, {"a": 1})[1], made("c", 5, {"a": 3})[1]
    assert newest.leaves_open(first)
    assert not newest.leaves_open(other)
    # What follows at that place may be one that came again as well.
    assert newest.unclear().leaves_open(other)
    assert not newest.unclear().leaves_open(made("c", 6, {"a": 1})[1])


def test_recorded_ends_rise_and_their_events_are_between_them():
    ends = [
        own
        for run in ("run1", "run2", "run4", "run5")
        for topic, _, value in recorded(run)
        if topic.endswith(".transaction")
        and value is not None
        and (own := read_end(json.loads(value))) is not None
    ]
    lsns = [own.lsn for own in ends]
    assert lsns == sorted(set(lsns))
    by_xid = {own.xid: own for own in ends}
    counts: dict[tuple[int, str], set[int]] = {}
    for _, own in streamed("run1", "run2", "run4", "run5"):
        assert own.xid is not None
        finished = by_xid[own.xid]
        assert own.last_commit < finished.lsn
        assert own.order is not None
        counts.setdefault((own.xid, own.table), set()).add(own.order)
    for (xid, table), orders in counts.items():
        assert by_xid[xid].counts["public", table] == len(orders)


@pytest.mark.parametrize(
    "change",
    [
        {"op": "x"},
        {"source": None},
        {"source": {"connector": "mysql"}},
        {"before": [1]},
        {"after": 1},
    ],
)
def test_what_is_no_event_is_refused(change):
    with pytest.raises(BadValue):
        read_event({**event("c", after={"id": 1}), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"lsn": None},
        {"lsn": -1},
        {"lsn": 2**64},
        {"txId": []},
        {"sequence": "[]"},
        {"sequence": "{"},
        {"ts_ms": None},
        {"ts_us": 10**40},
        {"sequence": "[Infinity,1]"},
        {"sequence": "[" * 100_000},
        {"sequence": f'["{"9" * 20}","1"]'},
        {"sequence": '["\u00b2","1"]'},
    ],
)
def test_source_that_cannot_be_is_refused(change):
    own = event("c", after={"id": 1})
    with pytest.raises(BadValue):
        read_event({**own, "source": {**own["source"], **change}})


@pytest.mark.parametrize("version", ["3.6.\u00b2", f"3.{'9' * 5000}.1", "", "next"])
def test_version_that_cannot_be_read_counts_on_nothing(version):
    own = event("c", after={"id": 1})
    found = read_event({**own, "source": {**own["source"], "version": version}})
    assert not found.has_lasting_order


@pytest.mark.parametrize(
    "change",
    [
        {"status": "MIDDLE"},
        {"id": "12"},
        {"id": f"1:{2**64}"},
        {"id": f"1:{'9' * 5000}"},
        {"id": "\u00b2:5"},
        {"ts_ms": None},
        {"event_count": "2"},
        {"data_collections": [1]},
        {"data_collections": [{"data_collection": "a.b"}]},
    ],
)
def test_what_is_no_end_is_refused(change):
    with pytest.raises(BadValue):
        read_end({**end(1, 2, {"orders": 1}), **change})


def test_placeholders_in_all_of_their_forms_and_nothing_else():
    text = "__debezium_unavailable_value"
    data = text.encode()
    java = uuid.UUID("3c7b0a5e-0000-3000-8000-000000000000")
    own = Placeholder()
    forms: list[Any] = [text, base64.b64encode(data).decode(), data]
    forms += [[text], list(data), {text: text}]
    others: list[Any] = [None, "", 0, text[:-1], b"", [], {}]
    others += [[text, text], {text: None}, [str(java)]]
    assert [own.stands_for(value) for value in forms] == [True] * len(forms)
    assert [own.stands_for(value) for value in others] == [False] * len(others)
    assert Placeholder("?").stands_for("?")
    assert not Placeholder("?").stands_for(text)
    (recorded_one,) = {
        value
        for _, event_ in events("run1")
        for value in (event_.after or {}).values()
        if own.stands_for(value)
    }
    assert recorded_one == text
