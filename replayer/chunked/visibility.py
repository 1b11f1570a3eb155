"""Which chunks contain a transaction. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.store.resync.resync_chunks import ChunkRow
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["Visibility", "group_by_chunk"]


class Visibility:
    """Says of transactions which chunks contain them: one chunk and all after it, or none."""

    def __init__(self, chunks: Sequence[ChunkRow]) -> None:
        """Take the chunks that changes may still arrive for, in order."""
        self._numbers = [chunk.number for chunk in chunks]
        self._contains = [CopyStart(chunk.lsn, chunk.snapshot).contains() for chunk in chunks]
        #: What stands for no chunk at all.
        self.none = self._numbers[-1] + 1 if chunks else 0

    def first(self, xid: int, commit_lsn: int) -> int:
        """Return the number of the first chunk that contains a transaction."""
        # Snapshots are taken one after the other: what one sees, all after it see.
        at = bisect_left(self._contains, 1, key=lambda contains: contains(xid, commit_lsn))
        return self._numbers[at] if at < len(self._numbers) else self.none


def group_by_chunk(
    decoder: PayloadDecoder, messages: Iterable[bytes], visibility: Visibility
) -> tuple[Sequence[tuple[int, list[bytes]]], frozenset[int]]:
    """Return changes one after the other that the same chunks contain, without begin messages.

    And the transactions that no chunk contains.
    """
    groups: list[tuple[int, list[bytes]]] = []
    xids: set[int] = set()
    first: int | None = None
    for message in messages:
        if decoder.is_begin(message):
            transaction = decoder.read_begin(message)
            first = visibility.first(transaction.xid, transaction.commit_lsn)
            if first == visibility.none:
                xids.add(transaction.xid)
        elif first is None:
            raise unreadable("a change is of no transaction")
        elif groups and groups[-1][0] == first:
            groups[-1][1].append(message)
        else:
            groups.append((first, [message]))
    return groups, frozenset(xids)
