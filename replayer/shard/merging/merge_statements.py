"""The statements that apply a staging table to its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.merging.keys import is_same_key
from pgrepl.replayer.shard.merging.packing import PACK, packed_value
from pgrepl.replayer.shard.merging.staging import StagingTable
from pgrepl.terminal import counted

__all__ = ["Conflict", "KeyedMerger", "MultisetMerger", "Outcome"]

#: What an INSERT does about a row that stands in its way.
_FAIL = SQL("")
_DO_NOTHING = SQL(" on conflict do nothing")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows of the target that were not as the changes expect."""

    missing_count: int = 0
    extra_count: int = 0


class Conflict(Exception):
    """The target's rows are not those that the source's changes are about."""

    def __init__(self, missing_count: int, extra_count: int, constraint: str | None = None) -> None:
        """Say how many rows are missing, and how many stand in the way."""
        super().__init__(missing_count, extra_count, constraint)
        self.outcome = Outcome(missing_count, extra_count)
        self.constraint = constraint

    def __str__(self) -> str:
        """Say it in words."""
        said = []
        if self.outcome.missing_count:
            rows = counted(self.outcome.missing_count, "row is", "rows are")
            said.append(f"{rows} missing that changes update or delete")
        if self.outcome.extra_count:
            rows = counted(self.outcome.extra_count, "row is", "rows are")
            said.append(f"{rows} there already that changes insert")
        if not said:
            said.append(f'other rows stand in the way of constraint "{self.constraint}"')
        return "on the target " + " and ".join(said)


class KeyedMerger:
    """The statements for a table with a key."""

    def __init__(self, connection: Connection, staging: StagingTable) -> None:
        self._connection = connection
        self._staging = staging
        self._table = staging.shape.identifier
        self._places = {name: n for n, name in enumerate(staging.shape.carried)}
        own = _prefixed("t", staging.key)
        self._is_old_key = self._is_same(own, _prefixed("s", self._old_key()))
        self._is_new_key = self._is_same(own, _prefixed("s", self._new_key()))

    def plain(self) -> None:
        """Delete, update, insert; count what is found."""
        if not self._can_update():
            self.replace()
            return
        moved = self._staging.count("M")
        self._fill(moved)
        missing = self._delete_old(moved)
        for group, columns in enumerate(self._staging.groups):
            missing += self._update(group, columns)
        if missing:
            raise Conflict(missing, 0)
        self._insert(moved)

    def replace(self) -> None:
        """Delete every touched row, then insert those that are there at the end."""
        moved = self._turn_updates_into_moves()
        self._fill(moved)
        missing = self._delete_old(moved)
        if missing:
            raise Conflict(missing, 0)
        self._insert(moved)

    def force(self) -> Outcome:
        """Bring about the end state whatever rows are there."""
        extra = self.extra_count()
        moved = self._turn_updates_into_moves()
        self._fill(moved)
        missing = self._delete_old(moved)
        self._run(
            SQL("delete from only {} t using {} s where s.op in ('I', 'M') and {}").format(
                self._table, self._staging.identifier, self._is_new_key
            )
        )
        self._insert(moved)
        return Outcome(missing, extra)

    def lenient(self) -> bool:
        """Do what can be done, and say whether all rows are there; none moves to another key."""
        if self._can_update():
            self._delete_old(0)
            missing = sum(self._update(*group) for group in enumerate(self._staging.groups))
            return self._insert(0, _DO_NOTHING) == self._staging.count("I") and not missing
        moved = self._turn_updates_into_moves()
        missing = self._run(
            SQL(
                "delete from {} s where op = 'M' and not exists (select from only {} t where {})"
            ).format(self._staging.identifier, self._table, self._is_old_key)
        )
        self._fill(moved)
        self._delete_old(moved)
        inserted = self._insert(moved, _DO_NOTHING)
        return inserted == self._staging.count("I") + moved and not missing

    def extra_count(self) -> int:
        """Count rows that stand where a row is to be inserted and that no change takes away."""
        if not self._staging.count("IM"):
            return 0
        is_freed = self._is_same(_prefixed("x", self._old_key()), _prefixed("s", self._new_key()))
        query = SQL(
            "select count(*) from {staging} s join only {table} t on {match}"
            " where s.op in ('I', 'M') and not exists"
            " (select from {staging} x where x.op in ('D', 'M') and {freed})"
        ).format(
            staging=self._staging.identifier,
            table=self._table,
            match=self._is_new_key,
            freed=is_freed,
        )
        ((count,),) = self._connection.execute(query).fetchall()
        return int(count)

    def _old_key(self) -> list[str]:
        return [f"o{n}" for n in range(len(self._staging.key))]

    def _new_key(self) -> list[str]:
        return [f"c{self._places[name]}" for name in self._staging.key]

    def _value(self, name: str, alias: str | None = None) -> Composable:
        """Return the value that the staging table has of a column."""
        if name in self._staging.packed:
            return packed_value(*self._staging.packed[name], alias)
        column = f"c{self._places[name]}"
        return Identifier(column) if alias is None else Identifier(alias, column)

    def _take_over(self, name: str) -> Composable:
        """Return the assignment of a table's value to the staging table."""
        own = Identifier("t", name)
        if name in self._staging.packed:
            place, _ = self._staging.packed[name]
            return SQL("{}[{}] = {}::text").format(Identifier(PACK), Literal(place), own)
        return SQL("{} = {}").format(Identifier(f"c{self._places[name]}"), own)

    def _in_order(self, key: Iterable[str]) -> Composed:
        """Return the order of the key's index: pages of the table are then met one after another.

        An identity that is no key of the target's may have types without an order.
        """
        names = list(key) if set(self._staging.key) == set(self._staging.shape.key) else ()
        return SQL(" order by {}" if names else "").format(SQL(", ").join(map(Identifier, names)))

    def _is_same(self, left: Iterable[Composable], right: Iterable[Composable]) -> Composed:
        return is_same_key(self._staging.shape, self._staging.key, left, right)

    def _can_update(self) -> bool:
        """Whether UPDATE can set every column: not one that is always generated."""
        by_name = self._staging.shape.by_name
        return not any(
            by_name[name].is_identity_always and name not in self._staging.key
            for group, columns in enumerate(self._staging.groups)
            if self._staging.counts.get(("U", group))
            for name in columns
        )

    def _turn_updates_into_moves(self) -> int:
        """Have updated rows deleted and inserted, and return how many rows are now."""
        if self._staging.count("U"):
            key = SQL(", ").join(
                SQL("{} = {}").format(Identifier(f"o{n}"), self._value(name))
                for n, name in enumerate(self._staging.key)
            )
            self._run(
                SQL("update {} set op = 'M', {} where op = 'U'").format(
                    self._staging.identifier, key
                )
            )
        return self._staging.count("MU")

    def _fill(self, moved: int) -> None:
        """Give rows that are deleted and inserted again the columns that they do not carry."""
        if not moved:
            return
        stored = self._staging.shape.stored
        for group, columns in enumerate(self._staging.groups):
            absent = [name for name in stored if name not in columns]
            if absent:
                values = SQL(", ").join(map(self._take_over, absent))
                self._run(
                    SQL(
                        "update {} s set {} from only {} t where s.op = 'M' and s.grp = {} and {}"
                    ).format(
                        self._staging.identifier,
                        values,
                        self._table,
                        Literal(group),
                        self._is_old_key,
                    )
                )

    def _delete_old(self, moved: int) -> int:
        """Delete rows by the keys they had, and return how many were not there."""
        expected = self._staging.count("D") + moved
        if not expected:
            return 0
        statement = SQL(
            "delete from only {} t using (select * from {} where op in ('D', 'M'){}) s where {}"
        )
        return expected - self._run(
            statement.format(
                self._table,
                self._staging.identifier,
                self._in_order(self._old_key()),
                self._is_old_key,
            )
        )

    def _update(self, group: int, columns: Sequence[str]) -> int:
        """Update rows in place, and return how many were not there."""
        expected = self._staging.counts.get(("U", group), 0)
        if not expected:
            return 0
        names = [name for name in columns if name not in self._staging.key]
        if not names:
            # A row that is all key, or whose other columns are unchanged: only whether it is there.
            return expected - self._count_found(group)
        values = SQL(", ").join(
            SQL("{} = {}").format(Identifier(name), self._value(name, "s")) for name in names
        )
        statement = SQL(
            "update only {} t set {}"
            " from (select * from {} where op = 'U' and grp = {}{}) s where {}"
        )
        return expected - self._run(
            statement.format(
                self._table,
                values,
                self._staging.identifier,
                Literal(group),
                self._in_order(self._new_key()),
                self._is_new_key,
            )
        )

    def _count_found(self, group: int) -> int:
        query = SQL(
            "select count(*) from {} s join only {} t on {} where s.op = 'U' and s.grp = {}"
        ).format(self._staging.identifier, self._table, self._is_new_key, Literal(group))
        ((count,),) = self._connection.execute(query).fetchall()
        return int(count)

    def _insert(self, moved: int, on_conflict: Composable = _FAIL) -> int:
        """Insert rows, and return how many."""
        stored = self._staging.shape.stored
        count = 0
        for group, columns in enumerate(self._staging.groups):
            if self._staging.counts.get(("I", group)):
                condition = SQL("op = 'I' and grp = {}{}").format(Literal(group), on_conflict)
                count += self._insert_rows(columns, condition)
        if moved:
            count += self._insert_rows(stored, SQL("op = 'M'{}").format(on_conflict))
        return count

    def _insert_rows(self, carried: Sequence[str], condition: Composable) -> int:
        by_name = self._staging.shape.by_name
        columns = [name for name in carried if not by_name[name].is_generated]
        return self._run(
            SQL("insert into {} ({}) overriding system value select {} from {} where {}").format(
                self._table,
                SQL(", ").join(map(Identifier, columns)),
                SQL(", ").join(map(self._value, columns)),
                self._staging.identifier,
                condition,
            )
        )

    def _run(self, statement: Composed) -> int:
        return self._connection.execute(statement).rowcount


class MultisetMerger:
    """The statements for a table without a key: rows are told apart by all their columns."""

    def __init__(self, connection: Connection, staging: StagingTable) -> None:
        self._connection = connection
        self._staging = staging
        self._columns = staging.groups[0]

    def plain(self) -> None:
        """Delete and insert; count what is found."""
        missing = self._delete()
        if missing:
            raise Conflict(missing, 0)
        self._insert()

    def replace(self) -> None:
        """There is no other way."""
        self.plain()

    def force(self) -> Outcome:
        """Delete what is there of it, and insert."""
        missing = self._delete()
        self._insert()
        return Outcome(missing, 0)

    def extra_count(self) -> int:
        """Nothing stands in the way of a row but what a constraint says."""
        return 0

    def _delete(self) -> int:
        expected = self._staging.count("D")
        if not expected:
            return 0
        # As texts, because not every type has an equality, and equal numbers can differ in scale.
        row = SQL(", ").join(SQL("t.{}").format(Identifier(name)) for name in self._columns)
        staged = SQL(", ").join(
            SQL("s.{}").format(Identifier(f"c{n}")) for n in range(len(self._columns))
        )
        statement = SQL(
            "delete from only {table} where ctid in (select ctid from ("
            " select t.ctid, s.n, row_number() over (partition by s.ctid) as number"
            " from only {table} t join {staging} s on row({row})::text = row({staged})::text"
            " where s.n < 0) found where number <= -n)"
        ).format(
            table=self._staging.shape.identifier,
            staging=self._staging.identifier,
            row=row,
            staged=staged,
        )
        return expected - self._connection.execute(statement).rowcount

    def _insert(self) -> None:
        if not self._staging.count("I"):
            return
        staged = SQL(", ").join(Identifier(f"c{n}") for n in range(len(self._columns)))
        names = SQL(", ").join(map(Identifier, self._columns))
        head = (
            SQL("({}) overriding system value select {}").format(names, staged)
            if self._columns
            else SQL("select")
        )
        self._connection.execute(
            SQL("insert into {} {} from {} cross join generate_series(1, n) where n > 0").format(
                self._staging.shape.identifier, head, self._staging.identifier
            )
        )


def _prefixed(alias: str, names: Iterable[str]) -> Sequence[Identifier]:
    return [Identifier(alias, name) for name in names]
