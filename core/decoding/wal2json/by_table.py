"""Payloads of the spool become the changes of each table, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pgrepl.copy_start import Start
from pgrepl.decoding.wal2json.grammar import (
    BEGIN_PREFIX,
    mark_nulls,
    names_of,
    read_begin,
    table_key,
    unreadable,
)
from pgrepl.decoding.wal2json.table_changes import TableChanges
from pgrepl.replayer.tables import Table, TableName

__all__ = ["Sorter", "extract", "held_by"]

#: A payload of so few tables is read by a pattern for each, without looking at its lines.
_FEW_TABLES = 3


@dataclass(slots=True)
class Sorter:
    """Collects changes; ``look_up`` says once for each table what happens to them."""

    look_up: Callable[[TableName], Table]
    #: The changes to apply, by table.
    changes: dict[TableName, TableChanges] = field(default_factory=dict)
    #: Tables whose changes are not applied: parked, or never copied.
    ignored: dict[TableName, Table] = field(default_factory=dict)
    #: The tables met in each bucket so far, as far as their lines need not be looked at.
    _in_bucket: dict[int, list[TableChanges]] = field(default_factory=dict)

    def take_payload(self, payload: bytes, change_count: int, bucket: int) -> None:
        """Sort a payload of changes.

        Raises
        ------
        SpoolError
            when it is not what the receiver wrote.

        """
        text = mark_nulls(payload)
        known = self._in_bucket.get(bucket) or self._first_in(text, bucket)
        if known and len(known) <= _FEW_TABLES:
            found = [table.find(text) for table in known]
            if sum(map(len, found)) == change_count:
                for table, changes in zip(known, found, strict=True):
                    table.add_found(changes)
                return
        self._take_lines(text.split(b"\n"), change_count, bucket)

    def _first_in(self, text: bytes, bucket: int) -> Sequence[TableChanges]:
        """Learn from its first change of which table a payload may be."""
        line = text.split(b"\n", 2)[:2][-1]
        if line.startswith(BEGIN_PREFIX) or not self.look_up(names_of(line)).is_applied:
            return ()
        self._changes_of(names_of(line), bucket).learn(line)
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
                take = self._taker(names_of(line), gathered)
                # A name that holds what ends a key holds a backslash before it.
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
            self.ignored[name] = table
            return lambda _begin, _line: None
        own = gathered.setdefault(name, [])
        if table.start is None:
            return lambda _, line: own.append(line)
        holds = held_by(table.start)
        return lambda begin, line: None if holds(begin) else own.append(line)

    def _changes_of(self, name: TableName, bucket: int) -> TableChanges:
        changes = self.changes.get(name)
        if changes is None:
            table = self.look_up(name)
            changes = self.changes[name] = TableChanges(name, table.shape)
            # Lines of a table that its copy may hold have to be looked at one by one.
            if table.start is None:
                self._in_bucket.setdefault(bucket, []).append(changes)
        return changes


def held_by(start: Start) -> Callable[[bytes], bool]:
    """Return the question whether a copy holds the transaction of a begin line."""
    holds = start.holds()
    known: dict[bytes, bool] = {}

    def is_held(begin: bytes) -> bool:
        answer = known.get(begin)
        if answer is None:
            known.clear()
            xid, _, commit_lsn, _ = read_begin(begin)
            answer = known[begin] = holds(xid, commit_lsn)
        return answer

    return is_held


def extract(payload: bytes, name: TableName) -> Iterator[bytes]:
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
            is_wanted = names_of(line) == name
            if b"\\" not in key:
                is_of_table[key] = is_wanted
        if is_wanted:
            if begin is not None:
                yield begin
                begin = None
            yield line
