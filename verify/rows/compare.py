"""The first pass: a piece of a table on both sides by checksums, then row by row where they differ.

What it finds are candidates: the two sides are read at different moments. Reading stops at a limit,
so that a target that lacks a whole table costs no more memory than one that lacks some rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from psycopg.sql import Composed

from pgrepl.config.dsn import Endpoint
from pgrepl.config.rules import Salt
from pgrepl.errors import PgreplError
from pgrepl.masking import set_salts
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.verify.rows.settle import Item
from pgrepl.verify.rows.statements import Digest, KeyRange, Statements
from pgrepl.verify.tables import Subject

__all__ = [
    "ROWS_PER_PIECE",
    "Batch",
    "Piece",
    "PieceResult",
    "Sides",
    "VerifyTask",
    "compare_batch",
]

STAGE = "verify"
#: Of a piece that differs the keys and digests are held in memory: some megabytes.
ROWS_PER_PIECE = 50_000
#: Maximum rows read of a piece that should have ROWS_PER_PIECE.
_MOST_ROWS = 4 * ROWS_PER_PIECE


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a table: a range of its keys, or the whole table in groups by a hash."""

    subject: Subject
    keys: KeyRange | None = None
    group_count: int = 1
    #: The groups to compare; None: all of them.
    groups: tuple[int, ...] | None = None
    #: How many candidates to list at most; 0: only say whether there are some.
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class PieceResult:
    """What the first pass found in a piece."""

    table: str
    source_rows: int
    target_rows: int
    candidates: tuple[Item, ...] = ()
    #: Whether there may be more candidates than are listed.
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """What a task needs to know. Holds secrets: it is pickled, never printed."""

    source: Endpoint = field(repr=False)
    target: Endpoint = field(repr=False)
    digest: Digest
    salts: frozenset[Salt] = frozenset()


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker does at once."""

    task: VerifyTask
    pieces: Sequence[Piece]


class Sides:
    """Sessions on both sides, asked at the same time."""

    def __init__(self, task: VerifyTask) -> None:
        """Connect to both."""
        self.task = task
        self.source = _open(task.source)
        with translated(task.source, "cannot prepare the session"):
            set_salts(self.source, task.salts)
        try:
            self.target = _open(task.target)
        except BaseException:
            self.source.close()
            raise
        self._pool = ThreadPoolExecutor(2)

    def close(self) -> None:
        """End the sessions."""
        self._pool.shutdown()
        self.source.close()
        self.target.close()

    def statements(self, subject: Subject) -> tuple[Statements, Statements]:
        """Return the statements of a table for the source and for the target."""
        digest = self.task.digest
        return (
            Statements(subject, subject.source, digest),
            Statements(subject, subject.target, digest),
        )

    def ask_both(
        self, subject: Subject, source: Composed, target: Composed
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Run a statement on each side, side by side."""
        first = self._pool.submit(self.ask_source, subject, source)
        second = self._pool.submit(self.ask_target, subject, target)
        return first.result(), second.result()

    def ask_source(self, subject: Subject, statement: Composed) -> list[tuple[Any, ...]]:
        """Run a statement on the source."""
        with translated(self.task.source, f"cannot read {subject.name}"):
            return self.source.execute(statement).fetchall()

    def ask_target(self, subject: Subject, statement: Composed) -> list[tuple[Any, ...]]:
        """Run a statement on the target."""
        with translated(self.task.target, f"cannot read the copy of {subject.name}"):
            return self.target.execute(statement).fetchall()


def _open(endpoint: Endpoint) -> Connection:
    connection = connect(endpoint, STAGE)
    with translated(endpoint, "cannot prepare the session"):
        # A policy that hides rows must fail, not hide them.
        connection.execute("set row_security = off")
    return connection


def compare_batch(batch: Batch) -> Sequence[PieceResult | PgreplError]:
    """Compare pieces one after the other, up to an error; runs in a worker."""
    results: list[PieceResult | PgreplError] = []
    try:
        sides = Sides(batch.task)
    except PgreplError as exc:
        return [exc]
    try:
        for piece in batch.pieces:
            try:
                results.append(_compare(sides, piece))
            except PgreplError as exc:
                results.append(exc)
                break
    finally:
        sides.close()
    return results


def _compare(sides: Sides, piece: Piece) -> PieceResult:
    return _compare_groups(sides, piece) if piece.keys is None else _compare_range(sides, piece)


def _compare_range(sides: Sides, piece: Piece) -> PieceResult:
    keys = piece.keys or KeyRange()
    source, target = sides.statements(piece.subject)
    ((here,), (there,)) = sides.ask_both(
        piece.subject, source.range_checksum(keys), target.range_checksum(keys)
    )
    counts = (piece.subject.name, here[0], there[0])
    if here == there or not piece.limit:
        return PieceResult(*counts, is_cut=here != there)
    found = sides.ask_both(
        piece.subject, source.range_rows(keys, _MOST_ROWS), target.range_rows(keys, _MOST_ROWS)
    )
    candidates = _candidates(*found)
    is_cut = len(candidates) > piece.limit or max(map(len, found)) >= _MOST_ROWS
    return PieceResult(*counts, tuple(islice(candidates, piece.limit)), is_cut)


def _compare_groups(sides: Sides, piece: Piece) -> PieceResult:
    subject, count = piece.subject, piece.group_count
    source, target = sides.statements(subject)
    rows = sides.ask_both(
        subject,
        source.group_checksums(count, piece.groups),
        target.group_checksums(count, piece.groups),
    )
    here, there = ({row[0]: row[1:] for row in side} for side in rows)
    totals = [sum(values[0] for values in side.values()) for side in (here, there)]
    differing = sorted(g for g in here.keys() | there.keys() if here.get(g) != there.get(g))
    sizes = {g: max(side[g][0] for side in (here, there) if g in side) for g in differing}
    candidates: list[Item] = []
    is_cut = False
    for groups in _chunks(differing, sizes):
        if len(candidates) >= piece.limit:
            is_cut = True
            break
        found = sides.ask_both(
            subject,
            source.group_rows(count, groups, _MOST_ROWS),
            target.group_rows(count, groups, _MOST_ROWS),
        )
        is_cut |= max(map(len, found)) >= _MOST_ROWS
        # Without a key a row is its digest, and its value how often it is there.
        candidates += _candidates(*found) if subject.key else _candidates(*map(_turned, found))
    is_cut |= len(candidates) > piece.limit
    return PieceResult(subject.name, totals[0], totals[1], tuple(candidates[: piece.limit]), is_cut)


def _chunks(groups: Sequence[int], sizes: dict[int, int]) -> Iterator[list[int]]:
    """Take as many groups at once as have ROWS_PER_PIECE rows: each time is a scan of the table."""
    chunk: list[int] = []
    total = 0
    for group in groups:
        if chunk and total + sizes[group] > ROWS_PER_PIECE:
            yield chunk
            chunk, total = [], 0
        chunk.append(group)
        total += sizes[group]
    if chunk:
        yield chunk


def _turned(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(count, str(digest)) for digest, count in rows]


def _candidates(source: Sequence[tuple[Any, ...]], target: Sequence[tuple[Any, ...]]) -> list[Item]:
    """Return the keys whose digests differ, or that one side lacks, in order of the source."""
    there = {row[1:]: row[0] for row in target}
    differing = [row[1:] for row in source if there.pop(row[1:], None) != row[0]]
    return differing + list(there)
