"""Payloads become the changes of each table, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import LookUp, TableName
from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.decoding.pgoutput.grammar import BEGIN, OID, RELATION, Relation, read_begin
from pgrepl.decoding.pgoutput.table_changes import TupleChanges
from pgrepl.store.copy_start import CopyStart

__all__ = ["TuplesByTable"]

_ACTIONS = (b"I", b"U", b"D")


@dataclass(slots=True)
class TuplesByTable:
    """Collects changes; ``look_up`` says once for each table what happens to them."""

    look_up: LookUp
    read_relation: Callable[[bytes], Relation]
    encoding: str
    #: The changes to apply, by table.
    changes: dict[TableName, TupleChanges] = field(default_factory=dict)
    #: Tables whose changes are not applied: parked, or never copied.
    _ignored: dict[TableName, None] = field(default_factory=dict)

    @property
    def ignored(self) -> Sequence[TableName]:
        """Tables whose changes are not applied, in the order they were met."""
        return list(self._ignored)

    def take_payload(self, payload: bytes, change_count: int, bucket: int) -> None:  # noqa: ARG002
        """Group a payload of changes; its bucket does not matter.

        Raises
        ------
        SpoolError
            when it is not what the receiver wrote.

        """
        messages = unpack(payload)
        grouping = _Grouping(self)
        # What to do with the changes of a table, by what they are and its oid.
        takes: dict[bytes, Callable[[bytes], object]] = {}
        head_count = 0
        for message in messages:
            take = takes.get(message[:5])
            if take is not None:
                take(message)
            elif message[0] == BEGIN:
                grouping.begin = message
                head_count += 1
            elif message[0] == RELATION:
                take = grouping.take_relation(message)
                takes.update({action + message[OID]: take for action in _ACTIONS})
                head_count += 1
            else:
                raise unreadable("a change is of a table that is not described")
        if len(messages) - head_count != change_count:
            raise unreadable(
                f"a row should have {change_count} changes, it has {len(messages) - head_count}"
            )
        grouping.finish()

    def ignore(self, name: TableName) -> None:
        """Note a table whose changes are not applied."""
        self._ignored[name] = None

    def changes_of(self, name: TableName) -> TupleChanges:
        """Return the changes of a table so far."""
        changes = self.changes.get(name)
        if changes is None:
            shape = self.look_up(name).shape
            changes = self.changes[name] = TupleChanges(name, shape, encoding=self.encoding)
        return changes


class _Grouping:
    """The changes of one payload."""

    def __init__(self, owner: TuplesByTable) -> None:
        self.begin = b""
        self._owner = owner
        #: By table: as it was described last, and the changes since.
        self._gathered: dict[TableName, tuple[Relation, list[bytes]]] = {}

    def take_relation(self, message: bytes) -> Callable[[bytes], object]:
        """Return what is done with the changes of a table from here on."""
        owner = self._owner
        relation = owner.read_relation(message)
        name = relation.name
        table = owner.look_up(name)
        if not table.is_applied:
            return lambda _: owner.ignore(name)
        self._flush(name)
        own: list[bytes] = []
        self._gathered[name] = relation, own
        if table.start is None:
            return own.append
        is_contained = self._contained_in(table.start)
        return lambda change: None if is_contained() else own.append(change)

    def finish(self) -> None:
        """Hand over what is gathered."""
        for name in list(self._gathered):
            self._flush(name)

    def _flush(self, name: TableName) -> None:
        gathered = self._gathered.pop(name, None)
        if gathered is not None and gathered[1]:
            self._owner.changes_of(name).take_messages(*gathered)

    def _contained_in(self, start: CopyStart) -> Callable[[], bool]:
        """Return the question whether a copy contains the transaction in hand."""
        contains = start.contains()
        known_begin = b""
        answer = False

        def is_contained() -> bool:
            nonlocal known_begin, answer
            if self.begin != known_begin:
                known_begin = self.begin
                begin = read_begin(known_begin)
                answer = contains(begin.xid, begin.commit_lsn)
            return answer

        return is_contained
