"""Parts of the spool become transactions again, in the order of their commits."""

from __future__ import annotations

import pytest

from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.framing import pack
from pgrepl.errors import SpoolError
from pgrepl.export.transactions import read_transactions
from pgrepl.lsn import Lsn
from pgrepl.store.spool.spool_rows import SpooledPart

NAMES = {1: ("app", "a"), 2: ("app", "b")}


def part(seq, bucket, number, *messages, count):
    payload = pack(
        [writing.relation(oid, name, ["id"], ["id"]) for oid, name in NAMES.items()]
        + list(messages)
    )
    return SpooledPart(
        seq, bucket, number, Lsn(1), Lsn(2), "2024-01-01", count, "pgoutput", "UTF8", None, payload
    )


def row(oid, number):
    return writing.insert(oid, [b"%d" % number])


def shown(parts, lone=frozenset()):
    return [
        (
            transaction.begin.commit_lsn,
            [
                (change.name[1], (change.new or {})["id"])
                for change in (decoder.read_change(m) for decoder, m in transaction.changes())
            ],
        )
        for transaction in read_transactions(parts, lone)
    ]


def test_transactions_of_several_buckets_are_merged():
    first, second, third = (writing.begin(lsn, 0, xid=lsn) for lsn in (10, 20, 30))
    parts = [
        part(1, 3, 0, first, row(1, 1), third, row(1, 4), count=2),
        part(1, 9, 1, first, row(2, 2), second, row(2, 3), count=2),
        part(2, 3, 0, writing.begin(40, 0), row(1, 5), count=1),
    ]
    assert shown(parts) == [
        (10, [("a", "1"), ("b", "2")]),
        (20, [("b", "3")]),
        (30, [("a", "4")]),
        (40, [("a", "5")]),
    ]


def test_transaction_of_many_parts_is_read_as_it_goes():
    begin = writing.begin(10, 0)
    asked = []

    def parts():
        for number in range(3):
            asked.append(number)
            yield part(1, 3, number, begin, row(1, number), count=1)

    (transaction,) = [
        next(iter(read_transactions(parts(), frozenset({1})))),
    ]
    assert asked == [0]
    assert len(list(transaction.changes())) == 3


def test_corrupted_parts_are_refused():
    begin = writing.begin(10, 0)
    with pytest.raises(SpoolError, match="another number of changes"):
        shown([part(1, 3, 0, begin, row(1, 1), count=2)])
    with pytest.raises(SpoolError, match="before the begin"):
        shown([part(1, 3, 0, row(1, 1), count=1)])
    with pytest.raises(SpoolError, match="has another"):
        shown(
            [
                part(1, 3, 0, begin, row(1, 1), count=1),
                part(1, 3, 1, writing.begin(20, 0), row(1, 1), count=1),
            ],
            frozenset({1}),
        )
