"""wal2json's payloads as the replayer reads them: lines, joined by a newline, or short ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.decoding.payload import Begin, LookUp, TableName
from pgrepl.decoding.row_change import RowChange
from pgrepl.decoding.shape import Shape
from pgrepl.decoding.wal2json.by_table import LinesByTable, extract
from pgrepl.decoding.wal2json.grammar import (
    BEGIN_PREFIX,
    COLUMNS,
    IDENTITY,
    LSN,
    SCHEMA,
    action_of,
    mark_nulls,
    names_of,
    read_begin,
    read_entries,
    read_lsn,
    read_value,
)
from pgrepl.decoding.wal2json.short import lines_of
from pgrepl.decoding.wal2json.table_changes import LineChanges
from pgrepl.postgres.encodings import python_codec

__all__ = ["Wal2JsonPayload"]


class Wal2JsonPayload:
    """Reads lines in the encoding of their source."""

    format = "wal2json"

    def __init__(self, encoding: str) -> None:
        """Take the encoding as PostgreSQL names it."""
        self.encoding = encoding
        self._codec = python_codec(encoding)

    def split(self, payload: bytes) -> list[bytes]:
        """Return the lines; JSON never contains a raw newline."""
        return lines_of(payload).split(b"\n")

    def join(self, messages: Sequence[bytes]) -> bytes:
        """Join lines."""
        return b"\n".join(messages)

    def is_begin(self, message: bytes) -> bool:
        """Whether a line begins a transaction."""
        return message.startswith(BEGIN_PREFIX)

    def read_begin(self, message: bytes) -> Begin:
        """Read a begin line."""
        return read_begin(message)

    def names_records(self, begin: bytes) -> bool:  # noqa: ARG002  its sources have none
        """Return False."""
        return False

    def action_of(self, message: bytes) -> bytes:
        """Return what a change does."""
        return action_of(message)

    def names_of(self, message: bytes) -> TableName:
        """Return the table of a change."""
        return names_of(message, self._codec)

    def command_of(self, truncate: bytes) -> bytes:
        """Return its position: one TRUNCATE is one record in the write-ahead log."""
        return truncate[truncate.find(LSN) : truncate.find(SCHEMA)]

    def restarts_identity(self, truncate: bytes) -> bool:  # noqa: ARG002  it does not say
        """Return False: sequences are copied from the source later."""
        return False

    def read_row(self, insert: bytes, errors: str = "strict") -> Mapping[str, str | None]:
        """Return the new row of a change."""
        return self._read_list(insert, insert.find(COLUMNS), COLUMNS, errors)

    def read_change(self, change: bytes) -> RowChange:
        """Return a change as values."""
        action, name = action_of(change), self.names_of(change)
        # Both lists stand where wal2json put them, and never inside of a text.
        new_at, old_at = change.find(COLUMNS), change.find(IDENTITY)
        return RowChange(
            action,
            name,
            None if new_at < 0 else self._read_list(change, new_at, COLUMNS),
            None if old_at < 0 else self._read_list(change, old_at, IDENTITY),
            read_lsn(change),
        )

    def _read_list(
        self, line: bytes, at: int, mark: bytes, errors: str = "strict"
    ) -> Mapping[str, str | None]:
        names, values = read_entries(line, at + len(mark), self._codec)
        texts = [read_value(value, self._codec, errors) for value in values]
        return dict(zip(names, texts, strict=True))

    def show_row(self, change: bytes) -> Mapping[str, str | None]:
        """Return the identity of a change, or else its row; what is not text is escaped."""
        mark = IDENTITY if IDENTITY in change else COLUMNS
        if mark not in change:
            return {}
        return self._read_list(change, change.rfind(mark), mark, "backslashreplace")

    def read_changes(
        self, name: TableName, shape: Shape | None, messages: Sequence[bytes]
    ) -> LineChanges:
        """Read changes of one table."""
        changes = LineChanges(name, shape, encoding=self.encoding, codec=self._codec)
        changes.take_lines([mark_nulls(line) for line in messages])
        return changes

    def group_by_table(self, look_up: LookUp) -> LinesByTable:
        """Return what groups payloads."""
        return LinesByTable(look_up, self._codec, self.encoding)

    def extract(self, payload: bytes, name: TableName) -> list[bytes]:
        """Return the changes of one table, with the begin lines of their transactions."""
        return list(extract(lines_of(payload), name, self._codec))
