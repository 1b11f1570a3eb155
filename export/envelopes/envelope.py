"""What turns changes into records: one of the envelopes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium import DebeziumEnvelope, Moment
from pgrepl.export.envelopes.upsert import UpsertEnvelope
from pgrepl.export.record import Record
from pgrepl.export.tables import ExportedTable, TableName

__all__ = ["Envelope", "EnvelopeName", "make_envelope"]

EnvelopeName = Literal["debezium", "upsert"]


class Envelope(Protocol):
    """Makes records; which table is what is told before its changes."""

    def describe(self, table: ExportedTable) -> None:
        """Take a table as it is from here on."""

    def begin(self, moment: Moment) -> Iterator[Record]:
        """Begin a transaction."""

    def change(self, change: RowChange, moment: Moment) -> Iterator[Record]:
        """Make the records of a change.

        Raises
        ------
        CannotExportError
            when the envelope has no form for it.
        UnknownColumnError
            when the table is another than was told.

        """

    def end(self, moment: Moment) -> Iterator[Record]:
        """End a transaction."""

    def snapshot_row(
        self, name: TableName, texts: Mapping[str, str | None], moment: Moment
    ) -> Record:
        """Make the record of a row that was there when the export began."""


def make_envelope(name: EnvelopeName, prefix: str, db: str, *, is_avro: bool = False) -> Envelope:
    """Return an envelope."""
    if name == "upsert":
        return UpsertEnvelope(prefix, is_avro=is_avro)
    return DebeziumEnvelope(prefix, db, lambda: time.time_ns() // 1000, is_avro=is_avro)
