"""Envelopes without servers: records go in, messages for the spool come out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.decoding.records.columns import HandlingModes
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.layouts import Layouts
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.receiver.streams.table_changes import ColumnSpec, FoundColumn
from pgrepl.receiver.streams.target_tables import TargetTables
from pgrepl.store.spool.spool_format import SpoolPart


class KnownTables:
    """Tables that are there, as ``TargetTables`` finds them."""

    def __init__(self, tables: Mapping[str, Mapping[str, str]]) -> None:
        self.tables = {
            ("public", name): {own: _column(kind) for own, kind in columns.items()}
            for name, columns in tables.items()
        }

    def columns(self, name: TableName) -> Mapping[str, FoundColumn] | None:
        return self.tables.get(name)

    def ensure(
        self, name: TableName, wanted: Sequence[ColumnSpec], _key: Sequence[str]
    ) -> Mapping[str, FoundColumn]:
        known = self.tables.setdefault(name, {})
        for column in wanted:
            known.setdefault(column.name, _column(column.type))
        return known

    def forget(self) -> None:
        """Nothing is kept."""


def _column(kind: str) -> FoundColumn:
    return FoundColumn(kind, is_not_null=False, is_key=False)


def layouts_of(tables: Mapping[str, Mapping[str, str]], **modes: str) -> Layouts:
    return Layouts(cast("TargetTables", KnownTables(tables)), HandlingModes(modes))


class Outlet:
    """Keeps what leaves."""

    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.parked: list[tuple[Place, int, str]] = []
        self.parts: list[SpoolPart] = []
        self.most_bytes = 0
        self.gathered = Gathered(self, limit_bytes)

    def bucket_of(self, name: TableName) -> int:
        return sum(map(ord, name[1])) % 64

    def park(self, record: Record, reason: str) -> None:
        self.parked.append((record.place, record.offset, reason))

    def make_room(self) -> None:
        self.most_bytes = max(self.most_bytes, self.gathered.byte_count)
        self.parts += self.gathered.take_parts(1, Lsn(0), Lsn(0), is_end=False)

    def end(self) -> list[SpoolPart]:
        """Return all parts of the segment."""
        parts = [*self.parts, *self.gathered.take_parts(1, Lsn(0), Lsn(9), is_end=True)]
        self.parts = []
        return parts

    def changes(self) -> list[bytes]:
        """Return the changes of the segment, without what describes tables."""
        return [
            message
            for part in self.end()
            for message in unpack(part.payload[0])
            if message[:1] not in b"BR"
        ]


def record(place: Place, offset: int, key: Any, value: Any) -> Record:
    own, row = (None if part is None else json.dumps(part).encode() for part in (key, value))
    return Record(place, offset, offset + 1, own, row, 1_700_000_000_000_000)
