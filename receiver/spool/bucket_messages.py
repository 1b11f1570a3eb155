"""The messages of one bucket, as they gather."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["BucketMessages"]

#: Where the description of a table stands, which table that is, and the line.
_Head = tuple[int, bytes, bytes]


class BucketMessages:
    """Lines in the order they came, those of each transaction after its begin line.

    Where changes need descriptions of their tables, each table's is before its first change, and
    again where it changed: whatever is taken out can be read alone.

    Whoever has many lines to add does without a call: when ``begin`` is not that of the transaction
    in hand, it is set, counted and added first. That is only right for a table whose description
    was put since lines were last taken out.
    """

    __slots__ = ("_heads", "_present", "add", "begin", "begin_count", "bucket", "lines")

    lines: list[bytes]
    begin_count: int
    #: The begin line of the transaction that the last line is of.
    begin: bytes | None
    add: Callable[[bytes], None]
    _heads: list[_Head]
    #: How each table was described last.
    _present: dict[bytes, bytes]

    def __init__(self, bucket: int) -> None:
        """Begin with nothing."""
        self.bucket = bucket
        self._set([], 0, None, [])

    def put(self, begin: bytes, line: bytes, heads: Mapping[bytes, bytes]) -> int:
        """Add a line of the transaction that this line begins, and descriptions that it needs.

        Returns how many bytes these have.
        """
        self._open(begin)
        size = 0
        for table, head in heads.items():
            if self._present.get(table) is not head:
                self._describe(table, head)
                size += len(head)
        self.add(line)
        return size

    def take(self) -> tuple[list[bytes], int]:
        """Take all lines out, and return how many of them are no changes."""
        taken = self.lines, self.begin_count + len(self._heads)
        self._set([], 0, None, [])
        return taken

    def take_but(self, begin: bytes) -> tuple[list[bytes], int]:
        """Take out the lines of all transactions but the one that this line begins."""
        if self.begin is not begin:
            return self.take()
        start, lines = self._find(begin), self.lines
        before, after = _split(self._heads, start)
        head_count = self.begin_count - 1 + len(before)
        self._set([], 0, None, [])
        self._extend(begin, lines[start + 1 :], _latest(before), after, start + 1)
        return lines[:start], head_count

    def move_to(self, other: BucketMessages, begin: bytes) -> None:
        """Move the changes of the transaction that this line begins, if it is the last here."""
        if self.begin is not begin:
            return
        start, lines = self._find(begin), self.lines
        before, after = _split(self._heads, start)
        other._extend(begin, lines[start + 1 :], _latest(before), after, start + 1)
        self._set(lines[:start], self.begin_count - 1, None, before)

    def _open(self, begin: bytes) -> None:
        if self.begin is not begin:
            self.begin = begin
            self.begin_count += 1
            self.add(begin)

    def _extend(
        self,
        begin: bytes,
        lines: Sequence[bytes],
        needed: Mapping[bytes, bytes],
        heads: Sequence[_Head],
        start: int,
    ) -> None:
        """Add lines that stood at ``start`` elsewhere, with what was described before them."""
        self._open(begin)
        for table, head in needed.items():
            self._describe(table, head)
        shift = len(self.lines) - start
        self._heads += [(at + shift, table, head) for at, table, head in heads]
        self._present.update(_latest(heads))
        self.lines += lines

    def _describe(self, table: bytes, head: bytes) -> None:
        self._heads.append((len(self.lines), table, head))
        self._present[table] = head
        self.add(head)

    def _find(self, begin: bytes) -> int:
        """Return where the last transaction begins."""
        at = len(self.lines) - 1
        while self.lines[at] is not begin:
            at -= 1
        return at

    def _set(
        self, lines: list[bytes], begin_count: int, begin: bytes | None, heads: list[_Head]
    ) -> None:
        self.lines = lines
        self.begin_count = begin_count
        self.begin = begin
        self.add = lines.append
        self._heads = heads
        self._present = _latest(heads)


def _latest(heads: Iterable[_Head]) -> dict[bytes, bytes]:
    """Return how each table was described last."""
    return {table: head for _, table, head in heads}


def _split(heads: Iterable[_Head], start: int) -> tuple[list[_Head], list[_Head]]:
    """Return the descriptions before a place, and those after it."""
    before: list[_Head] = []
    after: list[_Head] = []
    for head in heads:
        (before if head[0] < start else after).append(head)
    return before, after
