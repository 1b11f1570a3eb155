"""pgoutput as the receiver sees it: its options and its messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pgrepl.config.rules import Mask
from pgrepl.decoding.pgoutput.framing import pack_pieces
from pgrepl.decoding.pgoutput.grammar import (
    BEGIN_BYTES,
    INSERT,
    OID,
    TRUNCATE,
    UNCHANGED,
    Tuple,
    oid_of,
    read_position,
    read_relation,
    read_truncate,
    single_truncate,
)
from pgrepl.decoding.pgoutput.reshaping import read_row, to_delete, to_insert
from pgrepl.decoding.pgoutput.writing import (
    Row,
    keep_columns,
    map_tuples,
    put_into_schema,
    schema_in,
)
from pgrepl.decoding.stream import Action, ChangedRow, Payload, SpecialColumns, Transaction
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.masking import mask_value

__all__ = ["PgoutputStream", "publication_names"]

_BEGIN = b"B"
_COMMIT_BYTES = 26


def publication_names(slot: str) -> tuple[str, str]:
    """Return the publications of a slot: of all changes, and of inserts and truncates alone."""
    return slot, f"{slot}_inserts"


class PgoutputStream:
    """The plugin as the receiver sees it; it remembers the tables that the server described."""

    name = "pgoutput"
    action_at = slice(0, 1)
    actions: Mapping[bytes, Action] = {
        b"I": Action.CHANGE,
        b"U": Action.CHANGE,
        b"D": Action.CHANGE,
        b"T": Action.TRUNCATE,
        b"B": Action.BEGIN,
        b"C": Action.COMMIT,
        b"R": Action.RELATION,
        # Types are known by their texts, and where a transaction comes from does not matter.
        b"M": Action.MESSAGE,
        b"O": Action.MESSAGE,
        b"Y": Action.MESSAGE,
    }
    #: What a change is, and the oid of its table.
    key_slice: slice | None = slice(0, OID.stop)
    key_end = b""
    has_heads = True
    converts_encoding = True
    tells_losses = False

    def __init__(self) -> None:
        """Begin with no table known."""
        self._heads: dict[bytes, bytes] = {}
        self._names: dict[bytes, tuple[str, str]] = {}
        self._columns: dict[bytes, Sequence[str]] = {}
        self._identities: dict[bytes, Sequence[str]] = {}
        #: Tables whose schema was renamed: what it was called, and what it is now.
        self._moved: dict[bytes, tuple[frozenset[bytes], bytes]] = {}
        #: Descriptions without columns that are omitted.
        self._reduced: dict[tuple[bytes, frozenset[str]], bytes] = {}

    def option_sets(self, slot: str) -> Sequence[Mapping[str, str]]:
        """Return the options that every server knows.

        Messages of ``pg_logical_emit_message`` are not asked for: all of them would come, those of
        other programs too, and they may be large.
        """
        names = ",".join(f'"{name}"' for name in publication_names(slot))
        return ({"proto_version": "1", "publication_names": names},)

    def has_special_values(self, options: Mapping[str, str]) -> bool:  # noqa: ARG002  whatever they are
        """Whether NaN and Infinity are printed: always."""
        return True

    def special_columns(
        self,
        names: Sequence[str],  # noqa: ARG002  nothing is lost
        not_null_names: Sequence[str],  # noqa: ARG002
        column_names: Sequence[str],  # noqa: ARG002
        codec: str,  # noqa: ARG002
    ) -> SpecialColumns | None:
        """Return None: floats need no care."""
        return None

    def is_message(self, message: bytes) -> bool:
        """Whether this is one of the messages of protocol version 1."""
        return message[:1] in self.actions

    def is_begin(self, message: bytes) -> bool:
        """Whether this is a whole begin message."""
        return len(message) == BEGIN_BYTES and message.startswith(_BEGIN)

    def commit_lsn(self, message: bytes) -> int | None:
        """Read only the position out of a begin message; None when it is none."""
        return int.from_bytes(message[1:9]) if self.is_begin(message) else None

    def key_at(self, begin: bytes) -> int:  # noqa: ARG002  the same in all
        """Return where the key stands in changes."""
        return 0

    def table_key(self, message: bytes) -> bytes:
        """Return what a change is, and the oid of its table."""
        return message[:1] + oid_of(message)

    def is_whole_key(self, key: bytes) -> bool:
        """Whether no change of another table can have this key."""
        return len(key) == OID.stop

    def learn(self, relation: bytes, codec: str) -> bool:
        """Take a table's description; whether it replaces another one.

        The server sends it again whenever something made it look the table up.
        """
        oid = relation[OID]
        if oid in self._moved:
            olds, now = self._moved[oid]
            if schema_in(relation) in olds:
                # By a transaction that had begun before the schema was renamed.
                relation = put_into_schema(relation, now)
        known = self._heads.get(oid)
        if known == relation:
            return False
        self._heads[oid] = relation
        self._reduced.clear()
        described = read_relation(relation, codec)
        self._names[oid], self._columns[oid] = described.name, described.columns
        self._identities[oid] = described.identity
        return known is not None

    def move(self, oid: int, schema: str, was: str | None, codec: str) -> None:
        """Describe a table in a schema that was renamed: servers before 16 do not say so."""
        key = oid.to_bytes(4)
        if was is None or "\ufffd" in schema + was:
            # What stands for bytes that are no text is not the name.
            self._moved.pop(key, None)
            return
        now = schema.encode(codec)
        olds, _ = self._moved.get(key, (frozenset(), now))
        self._moved[key] = (olds | {was.encode(codec)}) - {now}, now
        if key in self._heads:
            self.learn(put_into_schema(self._heads[key], now), codec)

    def position_of(self, change: bytes) -> int | None:  # noqa: ARG002  whichever it is
        """Return None: tables are told by their OIDs."""
        return None

    def put_into_schema(self, change: bytes, schema: str, codec: str) -> bytes:  # noqa: ARG002
        """Return the change, which does not name its table."""
        return change

    def heads_of(
        self, change: bytes, masks: Mapping[str, Mask] | None = None
    ) -> Mapping[bytes, bytes]:
        """Return the description of a change's table, by what tells tables apart."""
        oid = oid_of(change)
        omitted = _omitted(masks)
        if not omitted:
            return {oid: self._heads[oid]}
        known = self._reduced.get((oid, omitted))
        if known is None:
            places = [name not in omitted for name in self._columns[oid]]
            known = self._reduced[oid, omitted] = keep_columns(self._heads[oid], places)
        return {oid: known}

    def table_name(self, message: bytes, codec: str) -> tuple[str, str]:  # noqa: ARG002  decoded before
        """Return schema and table."""
        name = self._names.get(oid_of(message))
        if name is None:
            raise SpoolError("the source sent a change of a table that it did not describe")
        return name

    def mask(self, change: bytes, masks: Mapping[str, Mask], codec: str) -> bytes:
        """Return a change with columns masked or taken out, in the tuples of both rows."""
        by_place = list(map(masks.get, self._columns[oid_of(change)]))

        def masked(row: Tuple) -> Row:
            if len(row) != len(by_place):
                raise SpoolError("the source sent a row that is not as it described the table")
            return [
                value if mask is None or value is UNCHANGED else mask_value(mask, value, codec)
                for mask, value in zip(by_place, row, strict=True)
                if mask is None or mask.kind != "omit"
            ]

        return map_tuples(change, masked)

    def changed_row(self, change: bytes, codec: str) -> ChangedRow:  # noqa: ARG002  as described
        """Return what a change carries of its row."""
        oid = oid_of(change)
        return read_row(change, self._columns[oid], self._identities[oid])

    def as_delete(self, change: bytes) -> bytes:
        """Return an update as a delete of its old row."""
        return to_delete(change)

    def as_insert(self, change: bytes, columns: Collection[str], codec: str) -> bytes | None:  # noqa: ARG002
        """Return an update as an insert of its new row; None: it does not carry all columns."""
        return to_insert(change)

    def is_insert(self, change: bytes) -> bool:
        """Whether a change is an insert."""
        return change[0] == INSERT

    def truncates(self, message: bytes) -> Sequence[bytes]:
        """Return a TRUNCATE of several tables as one of each."""
        if message[0] != TRUNCATE:
            raise AssertionError("it is a TRUNCATE")
        options, oids = read_truncate(message)
        return [single_truncate(options, oid) for oid in oids]

    def payload(self, messages: Sequence[bytes]) -> Payload:
        """Return messages as the spool keeps them."""
        return Payload(self.name, pack_pieces(messages))

    def transaction(self, begin: bytes) -> Transaction:
        """Read position and time out of a begin message; it does not say where it ends."""
        if not self.is_begin(begin):
            raise SpoolError("the source sent a begin message that cannot be read")
        at = int.from_bytes(begin[9:17], signed=True)
        xid, commit_lsn = read_position(begin)
        return Transaction(Lsn(commit_lsn), None, at, xid)

    def is_end_of(self, begin: bytes, commit: bytes) -> bool:
        """Compare position and time, which both messages carry."""
        is_whole = len(commit) == _COMMIT_BYTES
        return is_whole and begin[1:9] == commit[2:10] and begin[9:17] == commit[18:26]

    def lost_table(self, notice: str) -> str | None:  # noqa: ARG002  it says nothing
        """Return None: what a publication does not have is not mentioned."""
        return None

    def special_value(self, notice: str) -> bytes | None:  # noqa: ARG002  it says nothing
        """Return None: special values are in the changes."""
        return None


def _omitted(masks: Mapping[str, Mask] | None) -> frozenset[str]:
    return frozenset(name for name, mask in (masks or {}).items() if mask.kind == "omit")
