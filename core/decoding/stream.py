"""What the receiver needs to know of an output plugin's messages, and no more.

The messages go to the spool as they are; only the few facts below are read from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from pgrepl.config.rules import Mask
from pgrepl.lsn import Lsn

__all__ = ["Action", "ChangedRow", "Payload", "SpecialColumns", "StreamDecoder", "Transaction"]


class Action(IntEnum):
    """What a message is about."""

    CHANGE = 0  # insert, update or delete of one row
    TRUNCATE = 1  # of one table or several
    BEGIN = 2
    COMMIT = 3
    MESSAGE = 4  # of pg_logical_emit_message, or another that does not matter
    RELATION = 5  # describes a table, until another one does


class Transaction(NamedTuple):
    """What a begin message says of its transaction."""

    commit_lsn: Lsn
    #: None: only its commit will say.
    end_lsn: Lsn | None
    #: Microseconds since 2000.
    commit_at: int
    xid: int


class Payload(NamedTuple):
    """Messages as the spool keeps them."""

    #: What the row says of them.
    format: str
    #: In order; big messages are not copied.
    pieces: Sequence[bytes]


class ChangedRow(NamedTuple):
    """What a change of one row carries, by the names of columns, in the source's encoding."""

    #: None: an insert. Else the columns of the replica identity.
    old: Mapping[str, bytes | None] | None
    #: None: a delete. Else all but those that are unchanged and stored out of line.
    new: Mapping[str, bytes | None] | None


class SpecialColumns(Protocol):
    """The columns of a table whose special values the plugin may print as null."""

    def has_lost(self, message: bytes) -> bool:
        """Whether a special value was certainly lost in this change."""

    def restore(self, message: bytes, specials: Sequence[bytes]) -> bytes | None:
        """Put special values back into a change; None when nothing tells where they belong."""


class StreamDecoder(Protocol):
    """An output plugin."""

    name: str
    #: Which bytes of a message tell its action, and which action they tell.
    action_at: slice
    actions: Mapping[bytes, Action]
    #: Where the key of a change's table stands, see ``table_key``; None: not always in one place.
    key_slice: slice | None
    #: What it ends before then.
    key_end: bytes
    #: Whether payloads need the descriptions of their tables.
    has_heads: bool
    #: Whether values come in the ``client_encoding`` of the session.
    converts_encoding: bool
    #: Whether it says of which table a change could not be sent.
    tells_losses: bool

    def option_sets(self, slot: str) -> Sequence[Mapping[str, str]]:
        """Return options for ``START_REPLICATION``, the best first; old servers refuse some."""

    def has_special_values(self, options: Mapping[str, str]) -> bool:
        """Whether NaN and Infinity are printed, with the options that the server accepted."""

    def special_columns(
        self,
        names: Sequence[str],
        not_null_names: Sequence[str],
        column_names: Sequence[str],
        codec: str,
    ) -> SpecialColumns | None:
        """Return what to do about the floats of a table with these; None: it has none."""

    def is_message(self, message: bytes) -> bool:
        """Whether this is a message of the plugin's at all."""

    def is_begin(self, message: bytes) -> bool:
        """Whether this is a whole begin message."""

    def key_at(self, begin: bytes) -> int:
        """Return where keys most likely begin in the changes of the transaction it begins."""

    def table_key(self, message: bytes) -> bytes:
        """Cut out the bytes that name a change's table."""

    def is_whole_key(self, key: bytes) -> bool:
        """Whether no change of another table can have this key."""

    def table_name(self, message: bytes, codec: str) -> tuple[str, str]:
        """Decode schema and name of a change's table, in whatever characters they are."""

    def learn(self, relation: bytes, codec: str) -> bool:
        """Take the description of a table; whether it replaces another one of the same table."""

    def move(self, oid: int, schema: str, was: str | None, codec: str) -> None:
        """Know that a table is in a schema of another name from here on.

        ``was``: what that was called, by which it may still be described; None: it was put there.
        """

    def position_of(self, change: bytes) -> int | None:
        """Return where a change stands in the WAL; None where tables are not told by names."""

    def put_into_schema(self, change: bytes, schema: str, codec: str) -> bytes:
        """Return a change of a table that is told by its name, in a schema of another name."""

    def heads_of(
        self, change: bytes, masks: Mapping[str, Mask] | None = None
    ) -> Mapping[bytes, bytes]:
        """Return the descriptions that a change needs, by what tells tables apart.

        They have no column that the masks omit. It is the same object until another description is
        learned.
        """

    def mask(self, change: bytes, masks: Mapping[str, Mask], codec: str) -> bytes:
        """Return a change of one row with columns masked, in its old row as in its new one.

        Those that are omitted are taken out: ``heads_of`` describes it with the same masks.
        """

    def changed_row(self, change: bytes, codec: str) -> ChangedRow:
        """Return what a change carries of its row."""

    def as_delete(self, change: bytes) -> bytes:
        """Return an update as a delete of its old row."""

    def as_insert(self, change: bytes, columns: Collection[str], codec: str) -> bytes | None:
        """Return an update as an insert of its new row; None: it does not carry all columns."""

    def is_insert(self, change: bytes) -> bool:
        """Whether a change is an insert."""

    def truncates(self, message: bytes) -> Sequence[bytes]:
        """Return a TRUNCATE as one message for each table."""

    def payload(self, messages: Sequence[bytes]) -> Payload:
        """Return messages as the spool keeps them."""

    def transaction(self, begin: bytes) -> Transaction:
        """Decode a begin message."""

    def commit_lsn(self, message: bytes) -> int | None:
        """Decode only the position of a begin message; None when it is not a whole one."""

    def is_end_of(self, begin: bytes, commit: bytes) -> bool:
        """Whether a commit message ends the transaction that the begin message began."""

    def lost_table(self, notice: str) -> str | None:
        """Return the table of a warning that a change could not be sent, as ``schema"."table``."""

    def special_value(self, notice: str) -> bytes | None:
        """Return the float in a notice that the next change shows as null: NaN or Infinity."""
