"""Segments of the spool as transactions again, in the order of their commits. Pure.

The changes of one table are in their order; how those of several tables stood among each other is
not kept in the spool: here they are table by table, always in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import Begin, PayloadDecoder
from pgrepl.store.spool.spool_rows import SpooledPart

__all__ = ["SpooledTransaction", "read_transactions"]

#: Changes of one part, with what reads them.
_Run = tuple[PayloadDecoder, Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class SpooledTransaction:
    """A transaction; its changes can be read once."""

    #: The segment that it is in.
    seq: int
    begin: Begin
    runs: Iterable[_Run]

    def changes(self) -> Iterator[tuple[PayloadDecoder, bytes]]:
        """Yield the changes, each with what reads it."""
        for decoder, messages in self.runs:
            for message in messages:
                yield decoder, message


def read_transactions(
    parts: Iterable[SpooledPart], lone: frozenset[int]
) -> Iterator[SpooledTransaction]:
    """Yield the transactions of parts that come by segment and bucket.

    The segments in ``lone`` are of one transaction each, which may be bigger than memory: it is
    read as it goes.
    """
    for seq, own in groupby(parts, attrgetter("seq")):
        if seq in lone:
            yield _read_one(seq, own)
        else:
            yield from _merge(seq, own)


def _read_one(seq: int, parts: Iterator[SpooledPart]) -> SpooledTransaction:
    first = next(parts)
    (begin, messages), *others = _by_transaction(first)

    def runs() -> Iterator[_Run]:
        yield first.decoder, messages
        for part in parts:
            for again, more in _by_transaction(part):
                if again != begin:
                    raise unreadable("a segment of one transaction has another")
                yield part.decoder, more

    if others:
        raise unreadable("a segment of one transaction has another")
    return SpooledTransaction(seq, begin, runs())


def _merge(seq: int, parts: Iterable[SpooledPart]) -> Iterator[SpooledTransaction]:
    found: dict[int, tuple[Begin, list[_Run]]] = {}
    for part in parts:
        for begin, messages in _by_transaction(part):
            _, runs = found.setdefault(begin.commit_lsn, (begin, []))
            runs.append((part.decoder, messages))
    for commit_lsn in sorted(found):
        yield SpooledTransaction(seq, *found[commit_lsn])


def _by_transaction(part: SpooledPart) -> list[tuple[Begin, list[bytes]]]:
    """Cut a part into the transactions that it has changes of."""
    decoder = part.decoder
    found: list[tuple[Begin, list[bytes]]] = []
    for message in decoder.split(part.payload):
        if decoder.is_begin(message):
            found.append((decoder.read_begin(message), []))
        elif not found:
            raise unreadable("a change stands before the begin of its transaction")
        else:
            found[-1][1].append(message)
    if sum(len(messages) for _, messages in found) != part.change_count:
        raise unreadable("a row has another number of changes than it says")
    return found
