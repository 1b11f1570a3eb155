"""Where the copy of a table began: which transactions it contains already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgrepl.lsn import Lsn

__all__ = ["CopyStart"]

_XID_BITS = 32


@dataclass(frozen=True, slots=True)
class CopyStart:
    """Transactions that committed before ``lsn`` are in the copy.

    With a snapshot, those among them that are not visible in it are not.
    """

    lsn: Lsn
    #: PostgreSQL's text of a ``pg_snapshot``.
    snapshot: str | None = None

    def contains(self) -> Callable[[int, int], bool]:
        """Return the question whether the copy contains a transaction, by xid and commit LSN."""
        lsn = int(self.lsn)
        if self.snapshot is None:
            return lambda _, commit_lsn: commit_lsn < lsn
        low, high, listed = self.snapshot.split(":")
        running = {int(xid) for xid in filter(None, listed.split(","))}
        xmin, xmax = int(low), int(high)

        def contains(xid: int, commit_lsn: int) -> bool:
            if commit_lsn >= lsn:
                return False
            wide = _widened(xid, xmax)
            return wide < xmin or (wide < xmax and wide not in running)

        return contains


def _widened(xid: int, near: int) -> int:
    """Return the 64 bits of a transaction number, of which the stream has 32, nearest to another.

    >>> _widened(5, (1 << 32) + 3) == (1 << 32) + 5
    True
    """
    wide = (near >> _XID_BITS << _XID_BITS) | xid
    half = 1 << (_XID_BITS - 1)
    if wide - near > half:
        return wide - (1 << _XID_BITS)
    if near - wide > half:
        return wide + (1 << _XID_BITS)
    return wide
