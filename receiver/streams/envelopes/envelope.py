"""What records mean, for all envelopes: their keys, their tables, who takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.serialized import KEPT, Datum, Reader
from pgrepl.decoding.records.values import BadValue
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.record import Part, Place, Record

__all__ = ["EnvelopeReader", "Key", "RowId", "read_key", "read_value", "table_of"]

#: The schema of a topic whose name says none.
_DEFAULT_SCHEMA = "public"
#: The column of a key that is a plain value.
_KEY_COLUMN = "key"
#: Of files.
_SUFFIX = re.compile(r"\.(jsonl|avro|parquet)$")


class EnvelopeReader(Protocol):
    """Makes changes of records."""

    #: The format of the spool's rows that it makes.
    format: str

    def take(self, record: Record, gathered: Gathered) -> None:
        """Take a record.

        Raises
        ------
        BadValue
            when it cannot be read; nothing of it is gathered then.
        TableMissingError
            when its table has to be made by a person first.

        """

    def take_again(self, record: Record, gathered: Gathered) -> None:
        """Take a record that was parked; whether it came before is not asked.

        Raises as ``take`` does.
        """

    def end_again(self, gathered: Gathered) -> None:
        """Let go of what waited for the next of the records that were parked."""

    def row_of(self, record: Record) -> RowId:
        """Return which row a record is about.

        Raises
        ------
        BadValue
            when it cannot be read.

        """

    def settle(self, gathered: Gathered) -> None:
        """Let go of what waited for the next record of its partition: none came."""

    def first_waiting(self, place: Place) -> int | None:
        """Return the offset of a record that was taken and waits; None: none does."""

    def state_of(self, place: Place) -> Mapping[str, Any]:
        """Return what is to be kept with the offset of a partition."""

    def is_full(self, place: Place) -> bool:
        """Whether so much of a partition waits that it is better not read on."""

    @property
    def source_lsn(self) -> Lsn | None:
        """Where the database stood whose changes were gathered last, if the stream tells."""

    def restore(self, place: Place, state: Mapping[str, Any], partition_count: int) -> None:
        """Go on from what was kept."""

    def close(self) -> None:
        """Let go of what waits: it is read again."""


@dataclass(frozen=True, slots=True)
class RowId:
    """Which row a record is about."""

    table: TableName
    #: None: it has no key.
    key: Mapping[str, Any] | None
    #: Whether all rows of the table are others after it.
    is_whole_table: bool = False
    #: Where it stands in the source's log, if it says so.
    lsn: int = 0
    is_delete: bool = False
    #: Whether it follows a delete and says the same.
    is_tombstone: bool = False
    #: The columns that it leaves as they are.
    open_columns: frozenset[str] = frozenset()


class Key(NamedTuple):
    """The key of a record."""

    values: Mapping[str, Any]
    schema: Field | None


def read_key(reader: Reader, data: Part) -> Key | None:
    """Read a key; None: the record has none."""
    if data is None:
        return None
    datum = _read(reader, data, "key")
    if datum.value is None:
        return None
    if isinstance(datum.value, dict):
        return Key(datum.value, datum.schema)
    schema = None if datum.schema is None else _plain_key(datum.schema)
    return Key({_KEY_COLUMN: datum.value}, schema)


@lru_cache(maxsize=KEPT)
def _plain_key(schema: Field) -> Field:
    """Return the schema of a key that is a plain value: the same one for the same schema."""
    own = replace(schema, name=_KEY_COLUMN, is_optional=False)
    return Field("", "struct", parts=(own,))


def read_value(reader: Reader, data: bytes | Datum) -> Datum:
    """Read a value."""
    return _read(reader, data, "value")


def _read(reader: Reader, data: bytes | Datum, what: str) -> Datum:
    if isinstance(data, Datum):
        return data
    try:
        return reader.read(data)
    except BadValue as exc:
        raise BadValue(f"its {what} cannot be read: {exc}") from exc


@lru_cache(maxsize=KEPT)
def table_of(topic: str) -> TableName:
    """Return the table that a topic is about, by its name.

    In names of files a percent sign and two digits stand for what would end a name there.

    >>> table_of("srv.public.orders"), table_of("orders"), table_of("shop.a%2Eb/1.avro")
    (('public', 'orders'), ('public', 'orders'), ('shop', 'a.b'))
    """
    # A file is named after its table, or the folder that it is in is.
    topic, _, file = topic.partition("/")
    if not file:
        topic = _SUFFIX.sub("", topic)
    schema, _, table = topic.rpartition(".")
    return unquote(schema.rpartition(".")[2]) or _DEFAULT_SCHEMA, unquote(table)
