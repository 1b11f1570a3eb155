"""The statements of a comparison: the same on both sides, but for names.

A row's digest is 64 bits of a hash of its text, printed under the settings that pgrepl pins. A
range's checksum is the count and the sum of its rows' digests: the same in any order, and, other
than an exclusive or, not blind to a row that is there twice. Two ranges that differ have the same
checksum with a chance of one in 2^64 each; a run over a billion ranges that differ would overlook
one with a chance of less than one in ten billion. Rows are assumed not to be forged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from pgrepl.masking import mask_expression, rows_of
from pgrepl.verify.tables import Subject, Table

__all__ = ["DIGEST_PROBE", "Digest", "KeyRange", "Statements"]

#: Two servers that say the same to this hash alike.
DIGEST_PROBE = (
    "select pg_encoding_to_char(encoding),"
    " hashtextextended('pgrepl' collate \"C\", 0),"
    " hashtextextended(repeat('pgrepl', 100) collate \"C\", 0)"
    " from pg_database where datname = current_database()"
)


class Digest(Enum):
    """How a text is hashed."""

    #: PostgreSQL's own hash: half the time, but it follows the encoding and the byte order.
    FAST = "fast"
    #: MD5 of the text in UTF-8: the same everywhere.
    PORTABLE = "portable"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys after ``low`` up to ``high``; None: no limit."""

    low: tuple[str, ...] | None = None
    high: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements for a table on one side."""

    subject: Subject
    table: Table
    digest: Digest

    # --- parts --------------------------------------------------------------------------------

    @property
    def _from(self) -> Composable:
        table = Identifier(self.table.schema, self.table.name)
        return SQL("from {}").format(rows_of(table, self.table.where))

    @property
    def _row(self) -> Composable:
        return self._hash(self.subject.columns)

    @property
    def _bucket_hash(self) -> Composable:
        """What deals rows into groups: equal keys into the same, whatever else is in the row."""
        return self._hash(self.subject.key or self.subject.columns)

    def _hash(self, columns: Sequence[str]) -> Composable:
        text = SQL("row({})::text").format(SQL(", ").join(map(self._value, columns)))
        if self.digest is Digest.FAST:
            return SQL('hashtextextended({} collate "C", 0)').format(text)
        return SQL("('x' || left(md5(convert_to({}, 'UTF8')), 16))::bit(64)::bigint").format(text)

    def _value(self, name: str) -> Composable:
        """Return a column as it is compared: on the source as its mask shows it."""
        mask = self.table.mask(name)
        return _column(name) if mask is None else mask_expression(mask, _column(name))

    def _key_texts(self) -> Composable:
        return SQL(", ").join(
            SQL("{}::text").format(_column(name)) for name in self.subject.key or ()
        )

    def _typed(self, name: str, value: Composable) -> Composable:
        column = self.table.column(name)
        return SQL("{}::{}").format(value, Identifier(column.type_schema, column.type_name))

    def _where(self, keys: KeyRange) -> Composable:
        names = self.subject.key or ()
        columns = SQL("({})").format(SQL(", ").join(map(_column, names)))
        conditions = [
            SQL("{} {} ({})").format(
                columns,
                operator,
                SQL(", ").join(
                    self._typed(name, Literal(text))
                    for name, text in zip(names, limit, strict=True)
                ),
            )
            for operator, limit in ((SQL(">"), keys.low), (SQL("<="), keys.high))
            if limit is not None
        ]
        return SQL("where {}").format(SQL(" and ").join(conditions)) if conditions else SQL("")

    # --- the first pass -----------------------------------------------------------------------

    def next_limit(self, low: tuple[str, ...] | None, rows: int) -> Composed:
        """Return the key that number of rows further on, in the order of the index."""
        order = SQL(", ").join(map(_column, self.subject.key or ()))
        return SQL("select {} {} {} order by {} offset {} limit 1").format(
            self._key_texts(), self._from, self._where(KeyRange(low)), order, Literal(rows - 1)
        )

    def range_checksum(self, keys: KeyRange) -> Composed:
        """Count the rows of a range, and sum their digests."""
        return SQL("select count(*), coalesce(sum({}), 0) {} {}").format(
            self._row, self._from, self._where(keys)
        )

    def range_rows(self, keys: KeyRange, limit: int) -> Composed:
        """Return digest and key of the rows of a range."""
        return SQL("select {}, {} {} {} limit {}").format(
            self._row, self._key_texts(), self._from, self._where(keys), Literal(limit)
        )

    def group_checksums(self, group_count: int, groups: Sequence[int] | None) -> Composed:
        """Return for each group of the whole table, or for some, its number, count and sum."""
        return SQL("select {} & {}, count(*), sum({}) {} {} group by 1").format(
            self._bucket_hash,
            Literal(group_count - 1),
            self._row,
            self._from,
            SQL("") if groups is None else self._in_groups(group_count, groups),
        )

    def group_rows(self, group_count: int, groups: Sequence[int], limit: int) -> Composed:
        """Return digest and key of the rows of some groups; without a key digest and count."""
        where = self._in_groups(group_count, groups)
        if self.subject.key is None:
            return SQL("select {}, count(*)::text {} {} group by 1 limit {}").format(
                self._row, self._from, where, Literal(limit)
            )
        return SQL("select {}, {} {} {} limit {}").format(
            self._row, self._key_texts(), self._from, where, Literal(limit)
        )

    def _in_groups(self, group_count: int, groups: Sequence[int]) -> Composable:
        return SQL("where ({} & {}) = any ({}::bigint[])").format(
            self._bucket_hash, Literal(group_count - 1), Literal(list(groups))
        )

    # --- single rows --------------------------------------------------------------------------

    def states(self, items: Sequence[tuple[str, ...]]) -> Composed:
        """Return item number, value and version of the rows asked for that are there.

        The version says whether a row was written in between, even when it is the same again.
        """
        if self.subject.key is None:
            return SQL(
                "select k.n, count(*)::text, sum(hashtextextended(t.xmin::text || t.ctid::text, 0))"
                "::text {}, unnest({}::bigint[]) with ordinality as k (digest, n)"
                " where {} = k.digest group by 1"
            ).format(self._from, Literal([digest for (digest,) in items]), self._row)
        return SQL("select k.n, {}::text, t.xmin::text || t.ctid::text {}").format(
            self._row, self._joined(items)
        )

    def values(self, items: Sequence[tuple[str, ...]]) -> Composed:
        """Return item number and the text of each compared column of the rows asked for."""
        texts = SQL("array[{}]::text[]").format(
            SQL(", ").join(
                SQL("({})::text").format(self._value(name)) for name in self.subject.columns
            )
        )
        if self.subject.key is None:
            return SQL(
                "select distinct on (k.n) k.n, {} {}, unnest({}::bigint[]) with ordinality"
                " as k (digest, n) where {} = k.digest order by k.n"
            ).format(texts, self._from, Literal([digest for (digest,) in items]), self._row)
        return SQL("select k.n, {} {}").format(texts, self._joined(items))

    def _joined(self, items: Sequence[tuple[str, ...]]) -> Composable:
        """Join the table with a list of keys, by the types of the table."""
        names = self.subject.key or ()
        aliases = [f"k{number}" for number in range(len(names))]
        lists = [Literal(list(texts)) for texts in zip(*items, strict=True)]
        conditions = []
        for name, alias in zip(names, aliases, strict=True):
            wanted = Identifier("k", alias)
            if self.table.column(name).is_comparable:
                conditions.append(SQL("{} = {}").format(_column(name), self._typed(name, wanted)))
            else:
                conditions.append(SQL("{}::text = {}").format(_column(name), wanted))
        return SQL("{}, unnest({}) with ordinality as k ({}, n) where {}").format(
            self._from,
            SQL(", ").join(SQL("{}::text[]").format(texts) for texts in lists),
            SQL(", ").join(map(Identifier, aliases)),
            SQL(" and ").join(conditions),
        )


def _column(name: str) -> Composable:
    return Identifier("t", name)
