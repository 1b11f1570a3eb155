"""What is handed on: a record with a key and a value, and Connect's schemas of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pgrepl.decoding.records.schema import Field
from pgrepl.export.tables import TableName

__all__ = ["Record", "RecordWriter", "Schemas"]


@dataclass(frozen=True, slots=True, eq=False)
class Schemas:
    """The schemas of key and value; the same object as long as they are the same."""

    key: Field | None
    value: Field


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a table, or of the transaction topic."""

    #: None: of the transaction topic.
    name: TableName | None
    schemas: Schemas
    key: Mapping[str, Any] | None
    #: None: the row of the key is deleted.
    value: Mapping[str, Any] | None
    #: When its transaction committed, in microseconds since 1970.
    at_us: int
    #: Keys by the names of headers.
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Whether it only tells a compacting topic what the record before it says already.
    is_tombstone: bool = False


class RecordWriter(Protocol):
    """Makes bytes of records for a topic."""

    def key(self, record: Record, topic: str) -> bytes | None:
        """Write the key of a record; None: it has none."""

    def value(self, record: Record, topic: str) -> bytes | None:
        """Write the value of a record; None: it has none."""

    def header(self, record: Record, key: Mapping[str, Any]) -> bytes:
        """Write another key of the same table."""
