"""How big the next chunk is. Pure."""

from __future__ import annotations

import math

from pgrepl.store.resync.running_resyncs import Amount

__all__ = ["FIRST_LIMIT", "estimate_chunks", "fitting_rows", "most_bytes", "next_limit"]

#: Changes of the table wait for as long as a chunk takes.
_SECONDS = 0.5
#: Where replay is busy a chunk waits for its batch first: it may take as long as that took, or the
#: copy would get one small chunk for each large batch. But no longer than this.
_MOST_SECONDS = 5.0
#: What a chunk costs besides its rows does not shrink with it: on a busy machine chunks of 100 to
#: 300 rows made 400 rows a second, those of 5,000 made 4,400.
FIRST_LIMIT = 5_000
_MOST = 200_000
#: Rows may be long, and longer than those before them: a chunk ends after as many bytes.
_MOST_BYTES = 64 * 1024 * 1024


def most_bytes(rate: int | None) -> int:
    """Return how many bytes a chunk may have, at a rate that is asked for.

    >>> most_bytes(None), most_bytes(300_000)
    (67108864, 300000)
    """
    return _MOST_BYTES if rate is None else min(max(rate, 1), _MOST_BYTES)


def fitting_rows(row_count: int | None, byte_count: int | None, limit_bytes: int) -> int:
    """Return how many rows like some others a chunk may have, with room for larger ones.

    >>> fitting_rows(1000, 1_000_000, 64_000), fitting_rows(10, 10**9, 64_000)
    (32, 1)
    >>> fitting_rows(None, None, 64_000) == fitting_rows(0, 0, 64_000) == _MOST
    True
    """
    if not row_count or not byte_count:
        return _MOST
    return min(max(row_count * limit_bytes // (2 * byte_count), 1), _MOST)


def next_limit(
    limit: int, row_count: int, seconds: float, waited_s: float = 0.0, fitting: int = _MOST
) -> int:
    """Return how many rows the next chunk may have, after one that had to wait before it began.

    >>> next_limit(10000, 10000, 0.1)
    20000
    >>> next_limit(20000, 20000, 1.0)
    10000
    >>> next_limit(20000, 20000, 1.0, waited_s=3.0)
    40000
    >>> next_limit(20000, 300, 1.0, fitting=150)
    150
    """
    if row_count < limit or seconds <= 0:
        return min(limit, fitting)
    wanted_s = min(max(_SECONDS, waited_s), _MOST_SECONDS)
    factor = min(max(wanted_s / seconds, 0.5), 2.0)
    return min(max(int(limit * factor), FIRST_LIMIT), _MOST, fitting)


def estimate_chunks(amount: Amount, limit: int) -> int | None:
    """Return how many chunks there will be, if the rest are of this size; None: nobody knows.

    >>> estimate_chunks(Amount(10_000, 0, 2, 35_000, None), 10_000)
    5
    >>> estimate_chunks(Amount(10_000, 1_000, 2, 0, 4_000), 10_000)
    5
    """
    if not amount.part:
        return None
    rows = amount.row_count / amount.part - amount.row_count
    return amount.chunk_count + math.ceil(rows / limit)
