"""Payloads become the changes of each table, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import LookUp, TableName
from pgrepl.decoding.wal2json.grammar import (
    BEGIN_PREFIX,
    mark_nulls,
    names_of,
    read_begin,
    table_key,
)
from pgrepl.decoding.wal2json.short import lines_of
from pgrepl.decoding.wal2json.table_changes import LineChanges, readable
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["LinesByTable", "contained_in", "extract"]

#: A payload of so few tables is read by a pattern for each, without looking at its lines.
_FEW_TABLES = 6


@dataclass(slots=True)
class LinesByTable:
    """Collects changes; ``look_up`` says once for each table what happens to them."""

    look_up: LookUp
    codec: str
    encoding: str
    #: The changes to apply, by table.
    changes: dict[TableName, LineChanges] = field(default_factory=dict)
    #: Tables whose changes are not applied: parked, or never copied.
    _ignored: dict[TableName, None] = field(default_factory=dict)
    #: The tables met in each bucket so far, as far as their lines need not be looked at.
    _in_bucket: dict[int, list[LineChanges]] = field(default_factory=dict)

    @property
    def ignored(self) -> Sequence[TableName]:
        """Tables whose changes are not applied, in the order they were met."""
        return list(self._ignored)

    @property
    def table_count(self) -> int:
        """Of how many tables there are changes to apply."""
        return len(self.changes)

    def condense(self) -> int:
        """Forget changes that do not matter any more, and return how many are left to apply."""
        for changes in self.changes.values():
            changes.condense()
        return sum(changes.left_count for changes in self.changes.values())

    def take_payload(self, payload: bytes, change_count: int, bucket: int) -> None:
        """Group a payload of changes.

        Raises
        ------
        SpoolError
            when it is not what the receiver wrote.

        """
        text = readable(lines_of(payload))
        known = self._in_bucket.get(bucket) or self._first_in(text, bucket)
        if known and len(known) <= _FEW_TABLES:
            found = [table.find(text) for table in known]
            if sum(own.count for own in found) == change_count:
                for table, own in zip(known, found, strict=True):
                    table.add_found(own)
                return
        self._take_lines(mark_nulls(text).split(b"\n"), change_count, bucket)

    def _first_in(self, text: bytes, bucket: int) -> Sequence[LineChanges]:
        """Learn from its first change of which table a payload may be."""
        line = mark_nulls(text.split(b"\n", 2)[:2][-1])
        if line.startswith(BEGIN_PREFIX):
            return ()
        name = names_of(line, self.codec)
        if not self.look_up(name).is_applied:
            return ()
        self._changes_of(name, bucket).learn(line)
        return self._in_bucket.get(bucket, ())

    def _take_lines(self, lines: Sequence[bytes], change_count: int, bucket: int) -> None:
        """Give each line to its table."""
        gathered: dict[TableName, list[bytes]] = {}
        takes: dict[bytes, Callable[[bytes, bytes], object]] = {}
        begin = b""
        begin_count = 0
        for line in lines:
            if line.startswith(BEGIN_PREFIX):
                begin = line
                begin_count += 1
                continue
            key = table_key(line)
            take = takes.get(key)
            if take is None:
                take = self._taker(names_of(line, self.codec), gathered)
                # A name with what ends a key in it has a backslash before that.
                if b"\\" not in key:
                    takes[key] = take
            take(begin, line)
        if len(lines) - begin_count != change_count:
            raise unreadable(
                f"a row should have {change_count} changes, it has {len(lines) - begin_count}"
            )
        for name, own in gathered.items():
            self._changes_of(name, bucket).take_lines(own)

    def _taker(
        self, name: TableName, gathered: dict[TableName, list[bytes]]
    ) -> Callable[[bytes, bytes], object]:
        """Return what is done with a line of a table and the begin line of its transaction."""
        table = self.look_up(name)
        if not table.is_applied:
            self._ignored[name] = None
            return lambda _begin, _line: None
        own = gathered.setdefault(name, [])
        if table.start is None:
            return lambda _, line: own.append(line)
        is_contained = contained_in(table.start)
        return lambda begin, line: None if is_contained(begin) else own.append(line)

    def _changes_of(self, name: TableName, bucket: int) -> LineChanges:
        changes = self.changes.get(name)
        if changes is None:
            table = self.look_up(name)
            changes = self.changes[name] = LineChanges(
                name, table.shape, encoding=self.encoding, codec=self.codec
            )
            # Lines of a table that its copy may contain have to be looked at one by one.
            if table.start is None:
                self._in_bucket.setdefault(bucket, []).append(changes)
        return changes


def contained_in(start: CopyStart) -> Callable[[bytes], bool]:
    """Return the question whether a copy contains the transaction of a begin line."""
    contains = start.contains()
    known: dict[bytes, bool] = {}

    def is_contained(begin: bytes) -> bool:
        answer = known.get(begin)
        if answer is None:
            known.clear()
            own = read_begin(begin)
            answer = known[begin] = contains(own.xid, own.commit_lsn)
        return answer

    return is_contained


def extract(payload: bytes, name: TableName, codec: str) -> Iterator[bytes]:
    """Return the lines of one table, with the begin lines of their transactions."""
    begin: bytes | None = None
    is_of_table: dict[bytes, bool] = {}
    for line in payload.split(b"\n"):
        if line.startswith(BEGIN_PREFIX):
            begin = line
            continue
        key = table_key(line)
        is_wanted = is_of_table.get(key)
        if is_wanted is None:
            is_wanted = names_of(line, codec) == name
            if b"\\" not in key:
                is_of_table[key] = is_wanted
        if is_wanted:
            if begin is not None:
                yield begin
                begin = None
            yield line
