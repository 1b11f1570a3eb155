"""pgoutput's payloads as the replayer reads them.

Whoever applies changes one by one gets each of them with the description of its table after it, so
that it can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import Begin, LookUp, TableName
from pgrepl.decoding.pgoutput.by_table import TuplesByTable
from pgrepl.decoding.pgoutput.framing import pack, unpack
from pgrepl.decoding.pgoutput.grammar import (
    BEGIN,
    BEGIN_BYTES,
    DELETE,
    KEY,
    OID,
    RELATION,
    TRUNCATE,
    TUPLE_AT,
    UNCHANGED,
    Relation,
    Tuple,
    oid_of,
    old_tuple_at,
    read_begin,
    read_relation,
    read_tuple,
    truncate_options,
)
from pgrepl.decoding.pgoutput.table_changes import TupleChanges
from pgrepl.decoding.pgoutput.writing import next_begin
from pgrepl.decoding.row_change import RowChange
from pgrepl.decoding.shape import Shape
from pgrepl.postgres.encodings import python_codec

__all__ = ["PgoutputPayload", "UpsertPayload"]

#: After change and description: the size of the change.
_SIZE_BYTES = 4
#: Of the options of a TRUNCATE. CASCADE says nothing: the tables it led to are named as well.
_RESTART_IDENTITY = 2


class PgoutputPayload:
    """Reads messages in the encoding of their source."""

    format = "pgoutput"
    is_upsert = False

    def __init__(self, encoding: str) -> None:
        """Take the encoding as PostgreSQL names it."""
        self.encoding = encoding
        self._codec = python_codec(encoding)
        self._relations: dict[bytes, Relation] = {}

    def split(self, payload: bytes) -> list[bytes]:
        """Return begin messages, and changes with the descriptions of their tables."""
        return list(_with_relations(payload))

    def join(self, messages: Sequence[bytes]) -> bytes:
        """Return messages as a payload: each description before the first change that needs it."""
        joined: list[bytes] = []
        current: dict[bytes, bytes] = {}
        for message in messages:
            if message[0] == BEGIN:
                joined.append(message)
                continue
            change, relation = _cut(message)
            oid = relation[OID]
            if current.get(oid) != relation:
                current[oid] = relation
                joined.append(relation)
            joined.append(change)
        return pack(joined)

    def is_begin(self, message: bytes) -> bool:
        """Whether a message begins a transaction."""
        return message[0] == BEGIN

    def read_begin(self, message: bytes) -> Begin:
        """Read a begin message."""
        return read_begin(message)

    def names_records(self, begin: bytes) -> bool:
        """Whether a begin message says which records the next change was made of."""
        return len(begin) > BEGIN_BYTES

    def action_of(self, message: bytes) -> bytes:
        """Return what a change does."""
        return message[:1]

    def names_of(self, message: bytes) -> TableName:
        """Return the table of a change."""
        return self._relation(_cut(message)[1]).name

    def command_of(self, truncate: bytes) -> bytes:
        """Return its options: what is emptied one right after the other is emptied together."""
        return b"%d" % truncate_options(_cut(truncate)[0])

    def restarts_identity(self, truncate: bytes) -> bool:
        """Whether a TRUNCATE starts the sequences of its table over."""
        return bool(truncate_options(_cut(truncate)[0]) & _RESTART_IDENTITY)

    def read_row(self, insert: bytes, errors: str = "strict") -> Mapping[str, str | None]:
        """Return the new row of a change."""
        change, relation = _cut(insert)
        return self._read_texts(self._relation(relation).columns, _new_row(change), errors)

    def read_change(self, change: bytes) -> RowChange:
        """Return a change as values; pgoutput keeps no position with them."""
        own, message = _cut(change)
        relation = self._relation(message)
        action = own[:1]
        if own[0] == TRUNCATE:
            return RowChange(action, relation.name)
        old_at = old_tuple_at(own)
        old = None
        if old_at is not None:
            found = self._read_texts(relation.columns, read_tuple(own, old_at)[0], "strict")
            # Beyond the identity there are only nulls.
            names = relation.identity if own[old_at - 1] == KEY else relation.columns
            old = {name: found[name] for name in names if name in found}
        if own[0] == DELETE:
            return RowChange(action, relation.name, old=old)
        new = self._read_texts(relation.columns, _new_row(own), "strict")
        return RowChange(action, relation.name, new, old)

    def show_row(self, change: bytes) -> Mapping[str, str | None]:
        """Return the identity of a change, or else its row; what is not text is escaped."""
        own, message = _cut(change)
        if own[0] == TRUNCATE:
            return {}
        relation = self._relation(message)
        old_at = old_tuple_at(own)
        values = _new_row(own) if old_at is None else read_tuple(own, old_at)[0]
        shown = self._read_texts(relation.columns, values, "backslashreplace")
        if relation.identity and self.action_of(own) != b"I":
            return {name: shown[name] for name in relation.identity if name in shown}
        return shown

    def read_changes(
        self, name: TableName, shape: Shape | None, messages: Sequence[bytes]
    ) -> TupleChanges:
        """Read changes of one table."""
        changes = TupleChanges(name, shape, encoding=self.encoding, is_upsert=self.is_upsert)
        own: list[bytes] = []
        current: bytes | None = None
        for message in messages:
            change, relation = _cut(message)
            if relation != current:
                if current is not None:
                    changes.take_messages(self._relation(current), own)
                current, own = relation, []
            own.append(change)
        if current is not None:
            changes.take_messages(self._relation(current), own)
        return changes

    def group_by_table(self, look_up: LookUp) -> TuplesByTable:
        """Return what groups payloads."""
        return TuplesByTable(look_up, self._relation, self.encoding, self.is_upsert)

    def extract(self, payload: bytes, name: TableName) -> list[bytes]:
        """Return the changes of one table, with the begin messages of their transactions."""
        found: list[bytes] = []
        begin: bytes | None = None
        for message in _with_relations(payload):
            if message[0] == BEGIN:
                begin = message
            elif self.names_of(message) == name:
                if begin is not None:
                    found.append(begin)
                    begin = None
                found.append(message)
        return found

    def _relation(self, message: bytes) -> Relation:
        """Read a relation message, each of them once."""
        known = self._relations.get(message)
        if known is None:
            known = self._relations[message] = read_relation(message, self._codec)
        return known

    def _read_texts(
        self, names: Sequence[str], values: Tuple, errors: str
    ) -> Mapping[str, str | None]:
        if len(names) != len(values):
            raise unreadable("a change has another number of columns than its table")
        return {
            name: None if value is None else value.decode(self._codec, errors)
            for name, value in zip(names, values, strict=True)
            if value is not UNCHANGED
        }


class UpsertPayload(PgoutputPayload):
    """Reads messages of a source of which nobody knows which rows there were before.

    An update makes its row, or changes the one that is there; a delete of a row that is not there
    does nothing.
    """

    format = "upsert"
    is_upsert = True


def _with_relations(payload: bytes) -> Iterator[bytes]:
    """Return begin messages, and each change with the description of its table after it.

    Where a begin message names records, every change has one of its own.
    """
    relations: dict[bytes, bytes] = {}
    begin, is_told = b"", True
    for message in unpack(payload):
        if message[0] == BEGIN:
            yield message
            begin, is_told = message, True
        elif message[0] == RELATION:
            relations[message[OID]] = message
        else:
            relation = relations.get(oid_of(message))
            if relation is None:
                raise unreadable("a change is of a table that is not described")
            if not is_told:
                yield begin
            yield b"".join((message, relation, len(message).to_bytes(_SIZE_BYTES)))
            if len(begin) > BEGIN_BYTES:
                begin, is_told = next_begin(begin), False


def _cut(message: bytes) -> tuple[bytes, bytes]:
    """Return a change, and the description of its table."""
    size = int.from_bytes(message[-_SIZE_BYTES:])
    return message[:size], message[size:-_SIZE_BYTES]


def _new_row(change: bytes) -> Tuple:
    """Return the last tuple of a change: of an UPDATE that is the new row."""
    old_at = old_tuple_at(change)
    at = TUPLE_AT if old_at is None else read_tuple(change, old_at)[1] + 1
    return read_tuple(change, at if at < len(change) else TUPLE_AT)[0]
