"""wal2json as the receiver sees it: its options, its messages and its notices."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pgrepl.config.rules import Mask
from pgrepl.decoding.stream import Action, ChangedRow, Payload, Transaction
from pgrepl.decoding.wal2json.floats import FloatColumns
from pgrepl.decoding.wal2json.grammar import (
    ACTION_AT,
    BEGIN,
    HEAD,
    KEY_END,
    SCHEMA,
    SCHEMA_FROM,
    TABLE,
    find_names,
    literal,
    names_of,
    read_lsn,
    table_key,
)
from pgrepl.decoding.wal2json.masking import mask_line
from pgrepl.decoding.wal2json.reshaping import read_row, to_delete, to_insert
from pgrepl.decoding.wal2json.short import FORMAT, shorten
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.store.spool.spool_format import microseconds

__all__ = ["Wal2JsonStream"]

#: wal2json 2.6 and later: numbers as text, so that NaN and Infinity arrive.
_TEXT_NUMBERS = "numeric-data-types-as-string"

_OPTIONS = {
    "format-version": "2",
    "include-xids": "1",
    "include-timestamp": "1",
    "include-lsn": "1",
    "include-origin": "1",
    # Type names and defaults are not escaped by wal2json 2.5 and can break the JSON.
    "include-types": "0",
    # Other programs' messages may be large, or not even be text.
    "add-msg-prefixes": "pgrepl",
}

_NEXT = b',"nextlsn":"'
#: What follows the table in a change: its new row, or the key of its old one.
_FIELDS = (b'","columns', b'","identity')
_BODY_AT = ACTION_AT + 1
_INSERT = HEAD + b'I"'

_LOSS = re.compile(r'no (?:old )?tuple (?:identifier|data) for \w+ in table "(.*)"', re.DOTALL)
_SPECIAL = "special value: "

#: Lines longer than this are handed on as they are; shorter ones are joined to one piece.
_BIG_LINE_BYTES = 1 << 20
_NO_HEADS: Mapping[bytes, bytes] = {}


class Wal2JsonStream:
    """The plugin as the receiver sees it."""

    name = "wal2json"
    action_at = slice(ACTION_AT, _BODY_AT)
    actions: Mapping[bytes, Action] = {
        b"I": Action.CHANGE,
        b"U": Action.CHANGE,
        b"D": Action.CHANGE,
        b"T": Action.TRUNCATE,
        b"B": Action.BEGIN,
        b"C": Action.COMMIT,
        b"M": Action.MESSAGE,
    }
    key_slice: slice | None = None
    key_end = KEY_END
    has_heads = False
    converts_encoding = False
    tells_losses = True

    def option_sets(self, slot: str) -> Sequence[Mapping[str, str]]:  # noqa: ARG002  the same for all
        """Return the options, first with what wal2json 2.6 added."""
        return ({**_OPTIONS, _TEXT_NUMBERS: "1"}, _OPTIONS)

    def has_special_values(self, options: Mapping[str, str]) -> bool:
        """Whether NaN and Infinity are printed, with the options that the server accepted."""
        return _TEXT_NUMBERS in options

    def special_columns(
        self,
        names: Sequence[str],
        not_null_names: Sequence[str],
        column_names: Sequence[str],
        codec: str,
    ) -> FloatColumns | None:
        """Return what finds and restores NaN and Infinity that were printed as null."""
        return FloatColumns.of(names, not_null_names, column_names, codec)

    def is_message(self, message: bytes) -> bool:
        """Whether this is one of wal2json's objects, as far as its beginning tells."""
        return message.startswith(HEAD)

    def is_begin(self, message: bytes) -> bool:
        """Whether this is a whole begin message."""
        return BEGIN.fullmatch(message) is not None

    def commit_lsn(self, message: bytes) -> int | None:
        """Read only the position out of a begin message; None when it is none."""
        match = BEGIN.fullmatch(message)
        return None if match is None else int(match[3], 16) << 32 | int(match[4], 16)

    def key_at(self, begin: bytes) -> int:
        """Return where the key stands in changes: after the same xid, time, origin and LSN."""
        return begin.rfind(_NEXT)

    def table_key(self, message: bytes) -> bytes:
        """Cut out schema and table as they stand there, with the name of the field after them."""
        return table_key(message)

    def is_whole_key(self, key: bytes) -> bool:
        """Whether no change of another table can have this key."""
        # A name with what ends a key in it has a backslash before that.
        return b"\\" not in key and TABLE in key and key.endswith(_FIELDS)

    def table_name(self, message: bytes, codec: str) -> tuple[str, str]:
        """Decode schema and table; not the whole message, which may be very big."""
        try:
            return names_of(message, codec)
        except SpoolError as exc:
            raise SpoolError(_NAMELESS, hint=_PLUGIN_HINT) from exc

    def learn(self, relation: bytes, codec: str) -> bool:  # noqa: ARG002  there is no such message
        """Return False: every change names its table and columns."""
        return False

    def move(self, oid: int, schema: str, was: str | None, codec: str) -> None:
        """Do nothing: every change names its table."""

    def position_of(self, change: bytes) -> int | None:
        """Return where a change stands in the WAL."""
        return read_lsn(change)

    def put_into_schema(self, change: bytes, schema: str, codec: str) -> bytes:
        """Return a change with another schema."""
        start = change.find(SCHEMA, SCHEMA_FROM) + len(SCHEMA) - 1
        found = find_names(change)
        if found is None:
            raise SpoolError(_NAMELESS, hint=_PLUGIN_HINT)
        return change[:start] + literal(schema, codec) + change[start + len(found[0]) :]

    def heads_of(
        self,
        change: bytes,  # noqa: ARG002
        masks: Mapping[str, Mask] | None = None,  # noqa: ARG002
    ) -> Mapping[bytes, bytes]:
        """Return nothing: a change says all itself."""
        return _NO_HEADS

    def mask(self, change: bytes, masks: Mapping[str, Mask], codec: str) -> bytes:
        """Return a change with columns masked, in both of its lists."""
        return mask_line(change, masks, codec)

    def changed_row(self, change: bytes, codec: str) -> ChangedRow:
        """Return what a change carries of its row."""
        return read_row(change, codec)

    def as_delete(self, change: bytes) -> bytes:
        """Return an update as a delete of its old row."""
        return to_delete(change)

    def as_insert(self, change: bytes, columns: Collection[str], codec: str) -> bytes | None:
        """Return an update as an insert of its new row; None: it does not carry all columns."""
        return to_insert(change, columns, codec)

    def is_insert(self, change: bytes) -> bool:
        """Whether a change is an insert."""
        return change.startswith(_INSERT)

    def truncates(self, message: bytes) -> Sequence[bytes]:
        """Return the message: a command that names several tables gives one for each."""
        return (message,)

    def payload(self, messages: Sequence[bytes]) -> Payload:
        """Shorten lines, or join them by newlines, without copying the big ones."""
        if max(map(len, messages)) < _BIG_LINE_BYTES:
            short = shorten(messages)
            if short is not None:
                return Payload(FORMAT, (short,))
            return Payload(self.name, (b"\n".join(messages),))
        pieces = []
        for line in messages:
            pieces += [line, b"\n"]
        return Payload(self.name, pieces[:-1])

    def transaction(self, begin: bytes) -> Transaction:
        """Read position and time out of a begin message."""
        match = BEGIN.fullmatch(begin)
        if match is None:
            raise SpoolError(_UNREADABLE, hint=_PLUGIN_HINT)
        xid, at, *halves = match.groups()
        high, low, end_high, end_low = (int(half, 16) for half in halves)
        try:
            commit_at = microseconds(at.decode())
        except (ValueError, TypeError) as exc:
            raise SpoolError(_UNREADABLE, hint=_PLUGIN_HINT) from exc
        commit_lsn, end_lsn = Lsn(high << 32 | low), Lsn(end_high << 32 | end_low)
        return Transaction(commit_lsn, end_lsn, commit_at, int(xid))

    def is_end_of(self, begin: bytes, commit: bytes) -> bool:
        """Compare all but the action: both messages carry the same facts."""
        return begin[_BODY_AT:] == commit[_BODY_AT:]

    def lost_table(self, notice: str) -> str | None:
        """Return the table of a warning that a change could not be sent, as ``schema"."table``.

        wal2json does not escape the names, so that only a catalogue can split them with certainty.
        """
        match = _LOSS.fullmatch(notice)
        return None if match is None else match[1]

    def special_value(self, notice: str) -> bytes | None:
        """Return the value in a notice that a float was not printed: NaN, Infinity, -Infinity."""
        if not notice.startswith(_SPECIAL):
            return None
        value = notice.removeprefix(_SPECIAL)
        # PostgreSQL prints no other; whatever it were, it must not become JSON unseen.
        return value.encode() if value in {"NaN", "Infinity", "-Infinity"} else None


_NAMELESS = "the source sent a change that names no table"
_UNREADABLE = "the source sent a begin message that cannot be read"
_PLUGIN_HINT = "Is the plugin wal2json 2.4 or newer? Report it otherwise."
