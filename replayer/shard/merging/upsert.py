"""Merge a staging table whose rows may be there already, or not: the last state of a key wins.

Where a row leaves columns open, because their values did not change, it must be there: a value that
nobody has is never made up.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.replayer.shard.merging.merge_statements import Conflict, KeyedMerger, Outcome

__all__ = ["UpsertMerger"]


class UpsertMerger(KeyedMerger):
    """The statements for it."""

    def plain(self) -> None:
        """Delete; insert, or update where a row has the key."""
        if self._staging.count("M") or not self._can_update_in_place():
            self.replace()
            return
        self._delete_old(0)
        columns = self._staging.shape.stored
        if self._staging.count("U"):
            self._run(
                SQL(
                    "insert into {} ({}) overriding system value select {} from {}"
                    " where op = 'U' on conflict ({}) do {}"
                ).format(
                    self._table,
                    SQL(", ").join(map(Identifier, columns)),
                    SQL(", ").join(map(self._value, columns)),
                    self._staging.identifier,
                    SQL(", ").join(map(Identifier, self._staging.key)),
                    self._assign(columns),
                )
            )

    def replace(self) -> None:
        """Delete every touched row, then insert those that are there at the end."""
        missing = sum(self._fill_open(group) for group in range(len(self._staging.groups)))
        if missing:
            raise Conflict(missing, 0)
        moved = self._staging.count("M")
        self._delete_old(moved)
        self._run(
            SQL("delete from only {} t using {} s where s.op in ('U', 'M', 'N') and {}").format(
                self._table, self._staging.identifier, self._is_new_key
            )
        )
        self._insert_rows(self._staging.shape.stored, SQL("op in ('U', 'M', 'N')"))

    def force(self) -> Outcome:
        """Do the same: what is missing cannot be had from anywhere."""
        self.replace()
        return Outcome()

    def extra_count(self) -> int:
        """Nothing stands in the way of a row but what a constraint says."""
        return 0

    def _can_update_in_place(self) -> bool:
        """Whether rows are whole, and the key is one of the target's that ON CONFLICT finds."""
        shape = self._staging.shape
        is_whole = all(set(shape.stored) <= set(columns) for columns in self._staging.groups)
        return is_whole and set(self._staging.key) == set(shape.key) and self._can_update()

    def _assign(self, columns: Sequence[str]) -> Composable:
        names = [name for name in columns if name not in self._staging.key]
        if not names:
            return SQL("nothing")
        pairs = (SQL("{0} = excluded.{0}").format(Identifier(name)) for name in names)
        return SQL("update set {}").format(SQL(", ").join(pairs))

    def _fill_open(self, group: int) -> int:
        """Give rows of a group the columns that they leave open; return how many have no row."""
        columns = self._staging.groups[group]
        absent = [name for name in self._staging.shape.stored if name not in columns]
        counts = self._staging.counts
        updated, moved = counts.get(("U", group), 0), counts.get(("M", group), 0)
        if not absent or not updated + moved:
            return 0
        values = SQL(", ").join(map(self._take_over, absent))
        statement = SQL("update {} s set {}{} from only {} t where s.op = {} and s.grp = {} and {}")

        def fill(op: str, becomes: str, key: Composable) -> int:
            changed = SQL("") if op == becomes else SQL(", op = {}").format(Literal(becomes))
            return self._run(
                statement.format(
                    *(self._staging.identifier, values, changed, self._table),
                    *(Literal(op), Literal(group), key),
                )
            )

        found = fill("U", "U", self._is_new_key)
        # One that moved before, and was sent again, has its new key already.
        if moved:
            found += fill("M", "N", self._is_old_key) + fill("M", "N", self._is_new_key)
        return updated + moved - found

    def _delete_old(self, moved: int) -> int:
        """Delete rows by the keys they had; those that are not there are none to miss."""
        if self._staging.count("D") + moved:
            self._run(
                SQL("delete from only {} t using {} s where s.op in ('D', 'M', 'N') and {}").format(
                    self._table, self._staging.identifier, self._is_old_key
                )
            )
        return 0
