"""Keys of changes, compared with the ranges of chunks by the target: by its types and its order.

That is the order of the source as well, or the table is not copied in chunks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.zones import Zone
from pgrepl.replayer.shard.merging.staging import copy_rows, staging_cast
from pgrepl.store.resync.resync_chunks import ChunkRow, KeyText

__all__ = ["KeyStaging", "in_range", "is_after"]

_STAGING = Identifier("pg_temp", "pgrepl_keys")
#: A key that changes carry, as COPY takes it, and the first chunk that contains them.
StagedKey = tuple[int, tuple[bytes, ...]]


class KeyStaging:
    """A temporary table of keys."""

    def __init__(self, connection: Connection, shape: Shape, key: Sequence[str]) -> None:
        """Make it."""
        self._connection = connection
        self._columns = [Identifier(f"k{n}") for n in range(len(key))]
        selected = [
            SQL("t.{}{} as {}").format(Identifier(name), staging_cast(shape, name), own)
            for name, own in zip(key, self._columns, strict=True)
        ]
        connection.execute(
            SQL(
                "create temporary table pgrepl_keys on commit drop as select null::bigint as n,"
                " null::bigint as chunk, {} from only {} t with no data"
            ).format(SQL(", ").join(selected), shape.identifier)
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Drop it, unless the transaction failed anyway."""
        if exc_info[0] is None:
            self._connection.execute(SQL("drop table {}").format(_STAGING))

    def add(self, keys: Iterable[StagedKey], encoding: str) -> None:
        """Add keys of changes; they are numbered in their order."""
        rows = [
            b"\t".join((b"%d\t%d" % (number, chunk), *values))
            for number, (chunk, values) in enumerate(keys)
        ]
        names = ["n", "chunk", *(f"k{n}" for n in range(len(self._columns)))]
        copy_rows(self._connection, _STAGING, names, rows, encoding)

    def add_read(self, keys: Iterable[tuple[KeyText, int | None]]) -> None:
        """Add keys that are read again, or are to be."""
        statement = SQL("copy {} from stdin").format(_STAGING)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for key, chunk in keys:
                copy.write_row((-1, chunk, *key))

    def zones(
        self,
        chunks: Sequence[ChunkRow],
        last_key: Sequence[str] | None,
        firsts: Collection[int],
        *,
        is_copied: bool,
    ) -> Mapping[int, tuple[int, Zone]]:
        """Return of each key the number of the first one that is equal, and its zone."""
        own = self._prefixed("s")
        is_open: Composable = SQL("not {}").format(Literal(is_copied))
        if last_key is not None:
            is_open = SQL("{} and {}").format(is_open, is_after(own, last_key))
        # Estimates of an unknown table would have each key look for its like in all of it.
        self._connection.execute(SQL("analyze {}").format(_STAGING))
        rows = self._connection.execute(
            SQL(
                "with again as materialized (select {key}, max(chunk) as chunk,"
                " bool_or(chunk is null) as is_wanted from {staging} s where n < 0 group by {key})"
                " select n, min(n) over (partition by {own}),"
                " case when {ahead} or a.chunk >= s.chunk then 'ahead'"
                " when ({open}) or a.is_wanted then 'open' else 'exact' end"
                " from {staging} s left join again a on {same} where n >= 0"
            ).format(
                key=SQL(", ").join(self._columns),
                own=SQL(", ").join(own),
                ahead=_is_ahead(own, chunks, firsts),
                staging=_STAGING,
                same=SQL(" and ").join(
                    SQL("{} = {}").format(a, b)
                    for a, b in zip(own, self._prefixed("a"), strict=True)
                ),
                open=is_open,
            )
        )
        return {number: (equal, Zone(zone)) for number, equal, zone in rows.fetchall()}

    def texts(self, numbers: Collection[int]) -> Sequence[KeyText]:
        """Return keys as texts."""
        texts = SQL(", ").join(SQL("{}::text").format(column) for column in self._columns)
        rows = self._connection.execute(
            SQL("select {} from {} where n = any (%s)").format(texts, _STAGING), (list(numbers),)
        )
        return [tuple(row) for row in rows.fetchall()]

    def _prefixed(self, alias: str) -> list[Composable]:
        return [Identifier(alias, f"k{n}") for n in range(len(self._columns))]


def _is_ahead(
    own: Sequence[Composable], chunks: Sequence[ChunkRow], firsts: Collection[int]
) -> Composable:
    """Return the condition that a range contains a key: ranges follow one another."""
    ranges = [chunk for chunk in chunks if chunk.is_range]
    conditions = [
        SQL("s.chunk = {} and {}").format(
            Literal(first), in_range(own, contained[0].low, contained[-1].high)
        )
        for first in sorted(firsts)
        if (contained := [chunk for chunk in ranges if chunk.number >= first])
    ]
    return SQL(" or ").join(conditions) if conditions else SQL("false")


def in_range(
    key: Sequence[Composable], low: Sequence[str] | None, high: Sequence[str] | None
) -> Composable:
    """Return the condition that a key is after one and not after another."""
    conditions = [] if low is None else [is_after(key, low)]
    if high is not None:
        conditions.append(_compared(key, "<=", high))
    return SQL(" and ").join(conditions) if conditions else SQL("true")


def is_after(key: Sequence[Composable], low: Sequence[str]) -> Composable:
    """Return the condition that a key is after another."""
    return _compared(key, ">", low)


def _compared(key: Sequence[Composable], operator: str, values: Sequence[str]) -> Composable:
    # Literals without a type take that of what they are compared with.
    return SQL("({}) {} ({})").format(
        SQL(", ").join(key), SQL(operator), SQL(", ").join(map(Literal, values))
    )
