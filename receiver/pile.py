"""The lines of one bucket, as its payload will have them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Pile"]


class Pile:
    """Lines in the order they came, those of each transaction behind its begin line.

    Whoever has many lines to add does without a call: when ``begin`` is not that of the transaction
    in hand, it is set, counted and added first.
    """

    __slots__ = ("add", "begin", "begin_count", "bucket", "lines")

    lines: list[bytes]
    begin_count: int
    #: The begin line of the transaction that the last line is of.
    begin: bytes | None
    add: Callable[[bytes], None]

    def __init__(self, bucket: int) -> None:
        """Begin with nothing."""
        self.bucket = bucket
        self._set([], 0, None)

    def put(self, begin: bytes, line: bytes) -> None:
        """Add a line of the transaction that this line begins."""
        if self.begin is not begin:
            self.begin = begin
            self.begin_count += 1
            self.add(begin)
        self.add(line)

    def take(self) -> tuple[list[bytes], int]:
        """Take all lines out, and return how many of them begin a transaction."""
        taken = self.lines, self.begin_count
        self._set([], 0, None)
        return taken

    def take_but(self, begin: bytes) -> tuple[list[bytes], int]:
        """Take out the lines of all transactions but the one that this line begins."""
        if self.begin is not begin:
            return self.take()
        start, lines, begin_count = self._find(begin), self.lines, self.begin_count
        self._set(lines[start:], 1, begin)
        return lines[:start], begin_count - 1

    def take_of(self, begin: bytes) -> list[bytes]:
        """Take out the changes of the transaction that this line begins, if it is the last here."""
        if self.begin is not begin:
            return []
        start, lines = self._find(begin), self.lines
        self._set(lines[:start], self.begin_count - 1, None)
        return lines[start + 1 :]

    def _find(self, begin: bytes) -> int:
        """Return where the last transaction begins."""
        at = len(self.lines) - 1
        while self.lines[at] is not begin:
            at -= 1
        return at

    def _set(self, lines: list[bytes], begin_count: int, begin: bytes | None) -> None:
        self.lines = lines
        self.begin_count = begin_count
        self.begin = begin
        self.add = lines.append
