"""What the replayer needs to know of the payloads in the spool, and no more.

A payload is messages of a source's output plugin, in order: begin messages, each followed by the
changes of its transaction. A message is opaque bytes to whoever applies it; a format reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pgrepl.decoding.changes import TableChanges
from pgrepl.decoding.row_change import RowChange
from pgrepl.decoding.shape import Shape
from pgrepl.store.tables.copy_start import CopyStart

__all__ = [
    "Begin",
    "ChangesByTable",
    "Destination",
    "LookUp",
    "PayloadDecoder",
    "RecordPlace",
    "TableName",
]

#: Schema and table on the source.
TableName = tuple[str, str]


class RecordPlace(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


class Begin(NamedTuple):
    """What a begin message says of its transaction."""

    xid: int
    #: PostgreSQL's text of the time.
    commit_at: str
    commit_lsn: int
    #: The records that the next change was made of, where a source has some.
    records: tuple[RecordPlace, ...] = ()


class Destination(Protocol):
    """Where the changes of a table go."""

    @property
    def is_applied(self) -> bool:
        """Whether changes are applied now."""

    @property
    def shape(self) -> Shape | None:
        """The table on the target; None when there is none."""

    @property
    def start(self) -> CopyStart | None:
        """Which transactions the table's copy may contain already; None: none of those at hand."""


#: Tells the destination of a table; called at least once for each.
LookUp = Callable[[TableName], Destination]


class ChangesByTable(Protocol):
    """Collects the changes of payloads, grouped by table."""

    @property
    def changes(self) -> Mapping[TableName, TableChanges]:
        """The changes to apply, when all payloads are taken.

        Raises
        ------
        SpoolError
            when a payload is not what the receiver wrote.

        """

    @property
    def table_count(self) -> int:
        """Of how many tables there are changes to apply."""

    @property
    def ignored(self) -> Sequence[TableName]:
        """Tables whose changes are not applied."""

    def take_payload(self, payload: bytes, change_count: int, bucket: int) -> None:
        """Take a payload and the number of its changes.

        Raises
        ------
        SpoolError
            when it is not what the receiver wrote.

        """

    def condense(self) -> int:
        """Forget changes that do not matter any more, and return how many are left to apply."""


class PayloadDecoder(Protocol):
    """Reads the payloads of one format, in one encoding."""

    #: Values that say of a row of the spool how to read it.
    format: str
    encoding: str

    def split(self, payload: bytes) -> list[bytes]:
        """Return the messages of a payload; what was a record has a begin message of its own."""

    def join(self, messages: Sequence[bytes]) -> bytes:
        """Return messages as a payload."""

    def is_begin(self, message: bytes) -> bool:
        """Whether a message begins a transaction; all others are changes."""

    def read_begin(self, message: bytes) -> Begin:
        """Read a begin message."""

    def names_records(self, begin: bytes) -> bool:
        """Whether a begin message says which records the next change was made of."""

    def action_of(self, message: bytes) -> bytes:
        """Return what a change does."""

    def names_of(self, message: bytes) -> TableName:
        """Return the table of a change."""

    def command_of(self, truncate: bytes) -> bytes:
        """Return what is the same for all tables that one TRUNCATE names, and for no other."""

    def restarts_identity(self, truncate: bytes) -> bool:
        """Whether a TRUNCATE starts the sequences of its table over; not every format says it."""

    def read_row(self, insert: bytes, errors: str = "strict") -> Mapping[str, str | None]:
        """Return the new row of a change, column to PostgreSQL's text of the value.

        Raises
        ------
        UnicodeDecodeError
            when a value is not valid in the source's encoding; ``errors`` as in ``bytes.decode``.

        """

    def read_change(self, change: bytes) -> RowChange:
        """Return a change as values.

        Raises
        ------
        UnicodeDecodeError
            when a value is not valid in the source's encoding.

        """

    def show_row(self, change: bytes) -> Mapping[str, str | None]:
        """Return for people what tells the row of a change: its identity, or else all it has."""

    def read_changes(
        self, name: TableName, shape: Shape | None, messages: Sequence[bytes]
    ) -> TableChanges:
        """Read changes of one table."""

    def group_by_table(self, look_up: LookUp) -> ChangesByTable:
        """Return what groups payloads."""

    def extract(self, payload: bytes, name: TableName) -> list[bytes]:
        """Return the changes of one table, with the begin messages of their transactions."""
