"""Into which pieces the tables are cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.verify.rows.compare import ROWS_PER_PIECE, Piece
from pgrepl.verify.rows.statements import Digest, KeyRange, Statements
from pgrepl.verify.tables import Subject

__all__ = ["cut", "sampled", "whole"]

#: Rows that a group should have: what is read again when it differs.
_ROWS_PER_GROUP = 256
#: Number of groups whose sums are kept in memory, of both sides.
_MOST_GROUPS = 1 << 16


def whole(subject: Subject) -> Piece:
    """Return a table as one piece, in as many groups as it needs."""
    rows = max(subject.source.row_estimate, subject.target.row_estimate)
    wanted = ceil(rows / _ROWS_PER_GROUP)
    return Piece(subject, group_count=min(1 << max(wanted - 1, 0).bit_length(), _MOST_GROUPS))


def cut(connection: Connection, endpoint: Endpoint, subject: Subject) -> Iterator[Piece]:
    """Cut a table into ranges of its key, along the source's index; or leave it whole.

    A table whose key is text stays whole: another server may order it differently, so that a range
    here would not be the same range there. It is compared in groups by a hash of its key instead,
    in one scan.
    """
    if not subject.has_ranges:
        yield whole(subject)
        return
    # The digest plays no part in where the limits are.
    statements = Statements(subject, subject.source, Digest.FAST)
    low: tuple[str, ...] | None = None
    while True:
        with translated(endpoint, f"cannot read the keys of {subject.name}"):
            high = connection.execute(statements.next_limit(low, ROWS_PER_PIECE)).fetchone()
        yield Piece(subject, KeyRange(low, high))
        if high is None:
            return
        low = high


def sampled(pieces: list[Piece], share: float, dice: random.Random) -> list[Piece]:
    """Choose a share of a table's pieces, other ones each time; at least one."""
    if share >= 1:
        return pieces
    if pieces[0].keys is None:
        (piece,) = pieces
        groups = dice.sample(range(piece.group_count), ceil(piece.group_count * share))
        return [replace(piece, groups=tuple(sorted(groups)))]
    return dice.sample(pieces, ceil(len(pieces) * share))
