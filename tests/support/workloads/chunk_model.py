"""A source, its stream and a table that is copied in chunks, as literal as can be.

A transaction commits in the WAL, where the stream takes it from, and only later leaves the list of
running ones: between the two a snapshot does not see what the target may have applied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from pgrepl.decoding.changes import DELETE, INSERT, UPDATE
from pgrepl.replayer.chunked.zones import Step, Zone, divide

#: What an UPDATE carries of a long value that did not change.
UNCHANGED = -1

#: Kinds of events that write: delete, update, update but for the long value, move, move likewise.
WRITES = 5

#: A short value and a long one.
Row = tuple[int, int]


@dataclass
class Transaction:
    xid: int
    changes: list[Step[Row]] = field(default_factory=list)
    #: Where the changes of the open savepoint begin.
    savepoint: int | None = None
    lsn: int = 0


@dataclass(frozen=True)
class Rule:
    low: int
    high: int
    keys: frozenset[int]
    seen: frozenset[int]
    lsn: int

    def has(self, key: int) -> bool:
        return key in self.keys or self.low < key <= self.high


#: Says whether a chunk contains a transaction.
Sees = Callable[[Rule, Transaction], bool]


def by_visibility(rule: Rule, transaction: Transaction) -> bool:
    return transaction.xid in rule.seen


def by_position(rule: Rule, transaction: Transaction) -> bool:
    return transaction.lsn < rule.lsn


class Source:
    """Rows have versions; a row that an open transaction has changed is locked."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.versions: dict[int, list[tuple[int, Row | None]]] = {
            key: [(0, row)] for key, row in rows.items()
        }
        self.running: dict[int, Transaction] = {}
        #: In the WAL, and not seen by snapshots yet.
        self.committing: dict[int, Transaction] = {}
        self.gone: set[int] = {0}
        self.stream: list[Transaction] = []
        self.next_xid = 1
        self.next_value = 1000
        self.existed: set[tuple[int, Row]] = set(rows.items())

    def snapshot(self) -> frozenset[int]:
        return frozenset(self.gone)

    def rows(self, seen: frozenset[int]) -> dict[int, Row]:
        found = {}
        for key, versions in self.versions.items():
            row = next((row for xid, row in reversed(versions) if xid in seen), None)
            if row is not None:
                found[key] = row
        return found

    def _latest(self, key: int, xid: int) -> tuple[bool, Row | None]:
        """Return whether a transaction may change a row, and the row."""
        versions = self.versions.get(key, [])
        if not versions:
            return True, None
        owner, row = versions[-1]
        return owner in self.gone or owner == xid, row

    def write(self, writer: int, kind: int, key: int, other: int) -> None:
        transaction = self.running.get(writer)
        if transaction is None:
            transaction = self.running[writer] = Transaction(self.next_xid)
            self.next_xid += 1
        xid = transaction.xid
        is_free, row = self._latest(key, xid)
        if not is_free:
            return
        self.next_value += 1
        value = self.next_value
        if row is None:
            self._set(transaction, Step(INSERT, None, key, True, (value, value)), (value, value))
        elif kind == 0:
            self._set(transaction, Step(DELETE, key, None, True, row), None)
        elif kind == 1:
            self._set(transaction, Step(UPDATE, key, key, True, (value, value)), (value, value))
        elif kind == 2:
            step = Step(UPDATE, key, key, False, (value, UNCHANGED))
            self._set(transaction, step, (value, row[1]))
        elif other != key:
            is_other_free, there = self._latest(other, xid)
            if is_other_free and there is None:
                is_full = kind == 3
                moved = (value, value) if is_full else (value, row[1])
                carried = (value, value if is_full else UNCHANGED)
                self.versions[key].append((xid, None))
                self._set(transaction, Step(UPDATE, key, other, is_full, carried), moved)

    def _set(self, transaction: Transaction, step: Step[Row], row: Row | None) -> None:
        key = step.old if step.new is None else step.new
        assert isinstance(key, int)
        self.versions.setdefault(key, []).append((transaction.xid, row))
        transaction.changes.append(step)
        if row is not None:
            self.existed.add((key, row))

    def save(self, writer: int) -> None:
        if writer in self.running:
            self.running[writer].savepoint = len(self.running[writer].changes)

    def roll_back(self, writer: int) -> None:
        """Roll back to the savepoint, or else the transaction."""
        transaction = self.running.get(writer)
        if transaction is None:
            return
        kept = transaction.savepoint
        dropped = transaction.changes[kept or 0 :]
        for step in reversed(dropped):
            for key in {step.old, step.new} - {None}:
                assert isinstance(key, int)
                assert self.versions[key].pop()[0] == transaction.xid
        del transaction.changes[kept or 0 :]
        transaction.savepoint = None
        if kept is None:
            self.gone.add(self.running.pop(writer).xid)

    def commit(self, writer: int) -> None:
        if writer in self.running and writer not in self.committing:
            transaction = self.running.pop(writer)
            self.committing[writer] = transaction
            self.stream.append(transaction)
            transaction.lsn = len(self.stream)

    def leave(self, writer: int) -> None:
        if writer in self.committing:
            self.gone.add(self.committing.pop(writer).xid)


class Target:
    """A copy that the stream and chunks go into."""

    def __init__(self, source: Source, rows: dict[int, Row], sees: Sees) -> None:
        self.source = source
        self.table = dict(rows)
        self.sees = sees
        self.applied = 0
        self.last_key = -1
        self.is_copied = False
        self.rules: list[Rule] = []
        self.pending: set[Hashable] = set()
        self.reread_count = 0
        #: Rows of the copy were not as exact changes expect.
        self.conflicts = 0

    def replay(self) -> None:
        """Apply one transaction of the stream."""
        if self.applied == len(self.source.stream):
            return
        transaction = self.source.stream[self.applied]
        self.applied += 1
        ahead = [rule for rule in self.rules if self.sees(rule, transaction)]

        def zone_of(_place: int, key: Hashable) -> Zone:
            assert isinstance(key, int)
            if any(rule.has(key) for rule in ahead):
                return Zone.AHEAD
            is_open = (key > self.last_key and not self.is_copied) or key in self.pending
            return Zone.OPEN if is_open else Zone.EXACT

        division = divide(transaction.changes, zone_of)
        self.pending |= division.reread.keys()
        for step in division.exact:
            self._apply(step, is_exact=True)
        for step in division.open:
            self._apply(step, is_exact=False)

    def _apply(self, step: Step[Row], *, is_exact: bool) -> None:
        is_insert = step.old is None
        base = None if is_insert else self.table.pop(step.old, None)  # type: ignore[call-overload]
        if is_exact and (base is None) != is_insert:
            self.conflicts += 1
        if step.new is None or (not is_insert and base is None):
            return
        assert isinstance(step.new, int)
        if is_exact and step.new in self.table:
            self.conflicts += 1
        short, long = step.change
        if long == UNCHANGED:
            assert base is not None
            long = base[1]
        self.table[step.new] = short, long

    def chunk(self, size: int, *, checks_applied: bool = True) -> None:
        """Copy the next range of keys, or the keys to read again."""
        seen = self.source.snapshot()
        applied = {transaction.xid for transaction in self.source.stream[: self.applied]}
        if checks_applied and not applied <= seen:
            return
        lsn = len(self.source.stream) + 1
        rows = self.source.rows(seen)
        if self.pending:
            keys = frozenset(key for key in self.pending if isinstance(key, int))
            self.reread_count += len(keys)
            rule = Rule(0, 0, keys, seen, lsn)
            self.pending.clear()
        elif self.is_copied:
            return
        else:
            found = sorted(key for key in rows if key > self.last_key)[:size]
            high = found[-1] if len(found) == size else 1 << 30
            rule = Rule(self.last_key, high, frozenset(), seen, lsn)
            self.is_copied = len(found) < size
            self.last_key = high
        for key in [key for key in self.table if rule.has(key)]:
            del self.table[key]
        self.table |= {key: row for key, row in rows.items() if rule.has(key)}
        self.rules.append(rule)

    def is_done(self) -> bool:
        return self.is_copied and not self.pending and self.applied == len(self.source.stream)


def play(
    events: Sequence[tuple[int, int, int, int]],
    copy: dict[int, Row] | None = None,
    *,
    sees: Sees = by_visibility,
    checks_applied: bool = True,
) -> tuple[Source, Target, list[str]]:
    """Let things happen, and then all that is open come to its end; return what was wrong."""
    rows = {key: (key, key) for key in range(0, 12, 2)}
    source = Source(rows)
    target = Target(source, rows if copy is None else copy, sees)
    wrong: list[str] = []
    acts: Sequence[Callable[[int], None]] = (
        source.commit,
        source.leave,
        source.save,
        source.roll_back,
        lambda _: target.replay(),
        lambda size: target.chunk(1 + size, checks_applied=checks_applied),
    )
    for kind, writer, key, other in events:
        if kind < WRITES:
            source.write(writer, kind, key, other)
        else:
            acts[kind - WRITES](writer)
        if copy is None and not source.existed >= set(target.table.items()):
            wrong.append("a row that never existed")
    for writer in range(3):
        source.leave(writer)
        source.commit(writer)
        source.leave(writer)
    while not target.is_done():
        target.chunk(2, checks_applied=checks_applied)
        target.replay()
    if target.table != source.rows(source.snapshot()):
        wrong.append("the copy differs in the end")
    if target.conflicts:
        wrong.append("a change did not find its row")
    return source, target, wrong
