"""Payloads become the changes of each table, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import LookUp, TableName
from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.decoding.pgoutput.grammar import BEGIN, OID, RELATION, Relation, read_position
from pgrepl.decoding.pgoutput.table_changes import TupleChanges
from pgrepl.native import Native, native
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["TuplesByTable"]

_ACTIONS = (b"I", b"U", b"D")
#: What is no change.
_HEADS = (BEGIN, RELATION)


@dataclass(slots=True)
class TuplesByTable:
    """Collects changes; ``look_up`` says once for each table what happens to them."""

    look_up: LookUp
    read_relation: Callable[[bytes], Relation]
    encoding: str
    is_upsert: bool = False
    _changes: dict[TableName, TupleChanges] = field(default_factory=dict)
    #: Tables whose changes are not applied: parked, or never copied.
    _ignored: dict[TableName, None] = field(default_factory=dict)

    @property
    def changes(self) -> Mapping[TableName, TupleChanges]:
        """The changes to apply, when all payloads are taken, by table."""
        for changes in self._changes.values():
            changes.finish()
        return self._changes

    @property
    def table_count(self) -> int:
        """Of how many tables there are changes to apply."""
        return len(self._changes)

    def condense(self) -> int:
        """Forget changes that do not matter any more, and return how many are left to apply."""
        for changes in self._changes.values():
            changes.condense()
        return sum(changes.left_count for changes in self._changes.values())

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
        core = None if self.is_upsert else native
        if core is not None and self._take_natively(core, payload, change_count):
            return
        messages = unpack(payload)
        changes = [message for message in messages if message[0] not in _HEADS]
        if len(changes) != change_count:
            raise unreadable(f"a row should have {change_count} changes, it has {len(changes)}")
        relations = [message for message in messages if message[0] == RELATION]
        is_single = len(relations) == 1 and relations[0] in messages[:2]
        if not (is_single and self._take_alike(relations[0], changes)):
            self._take_mixed(messages)

    def _take_natively(self, core: Native, payload: bytes, change_count: int) -> bool:
        """Take a payload, unless transactions in it have to be looked at."""
        try:
            groups = core.group_changes(payload, change_count)
        except ValueError as exc:
            raise unreadable(str(exc)) from exc
        described = [(self.read_relation(message), places) for message, places in groups]
        tables = [self.look_up(relation.name) for relation, _ in described]
        if any(table.is_applied and table.start is not None for table in tables):
            return False
        for (relation, places), table in zip(described, tables, strict=True):
            if not places:
                continue
            if table.is_applied:
                self.changes_of(relation.name).take_places(core, relation, payload, places)
            else:
                self.ignore(relation.name)
        return True

    def _take_alike(self, described: bytes, changes: Sequence[bytes]) -> bool:
        """Take changes that are all of the table described before them, if they are."""
        oid = described[OID]
        if {change[OID] for change in changes} != {oid}:
            return False
        relation = self.read_relation(described)
        table = self.look_up(relation.name)
        if not table.is_applied or table.start is not None:
            return False
        self.changes_of(relation.name).take_messages(relation, changes)
        return True

    def _take_mixed(self, messages: Sequence[bytes]) -> None:
        """Give each change to its table."""
        grouping = _Grouping(self)
        # What to do with the changes of a table, by what they are and its oid.
        takes: dict[bytes, Callable[[bytes], object]] = {}
        for message in messages:
            take = takes.get(message[:5])
            if take is not None:
                take(message)
            elif message[0] == BEGIN:
                grouping.begin = message
            elif message[0] == RELATION:
                take = grouping.take_relation(message)
                takes.update({action + message[OID]: take for action in _ACTIONS})
            else:
                raise unreadable("a change is of a table that is not described")
        grouping.finish()

    def ignore(self, name: TableName) -> None:
        """Note a table whose changes are not applied."""
        self._ignored[name] = None

    def changes_of(self, name: TableName) -> TupleChanges:
        """Return the changes of a table so far."""
        changes = self._changes.get(name)
        if changes is None:
            shape = self.look_up(name).shape
            changes = self._changes[name] = TupleChanges(
                name, shape, encoding=self.encoding, is_upsert=self.is_upsert
            )
        return changes


class _Grouping:
    """The changes of one payload."""

    def __init__(self, owner: TuplesByTable) -> None:
        self.begin = b""
        self._owner = owner
        #: A table as it was described, and its changes from there on.
        self._gathered: list[tuple[Relation, list[bytes]]] = []

    def take_relation(self, message: bytes) -> Callable[[bytes], object]:
        """Return what is done with the changes of a table from here on."""
        owner = self._owner
        relation = owner.read_relation(message)
        name = relation.name
        table = owner.look_up(name)
        if not table.is_applied:
            return lambda _: owner.ignore(name)
        own: list[bytes] = []
        self._gathered.append((relation, own))
        if table.start is None:
            return own.append
        is_contained = self._contained_in(table.start)
        return lambda change: None if is_contained() else own.append(change)

    def finish(self) -> None:
        """Hand over what is gathered."""
        for relation, own in self._gathered:
            if own:
                self._owner.changes_of(relation.name).take_messages(relation, own)

    def _contained_in(self, start: CopyStart) -> Callable[[], bool]:
        """Return the question whether a copy contains the transaction in hand."""
        contains = start.contains()
        known_begin = b""
        answer = False

        def is_contained() -> bool:
            nonlocal known_begin, answer
            if self.begin != known_begin:
                known_begin = self.begin
                answer = contains(*read_position(known_begin))
            return answer

        return is_contained
