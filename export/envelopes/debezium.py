"""Changes as Debezium's events. Pure.

What differs from Debezium's own: ``source.version`` names pgrepl; the LSN of an event is that of
its transaction's commit where the spool does not have its own; ``sequence`` and the ids of
transactions count commits by the LSN of the commit record, not by its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pgrepl import __version__
from pgrepl.decoding.changes import DELETE, INSERT, TRUNCATE
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium_schema import (
    BLOCK_FIELD,
    SOURCE_FIELD,
    TRANSACTION_SCHEMAS,
    plain,
    times,
)
from pgrepl.export.envelopes.table_rows import CannotExportError, Row, TableRows
from pgrepl.export.record import Record, Schemas
from pgrepl.export.tables import ExportedTable, TableName

__all__ = ["DebeziumEnvelope", "Moment"]

_NEW_KEY = "__debezium.newkey"
_OLD_KEY = "__debezium.oldkey"


@dataclass(frozen=True, slots=True)
class Moment:
    """Where events stand: their transaction, or a snapshot."""

    #: None: in a snapshot.
    xid: int | None
    #: Of the commit, or of the snapshot.
    lsn: int
    #: The commit of the transaction before it.
    last_commit: int
    at_us: int


@dataclass(slots=True)
class _Counts:
    """The events of a transaction so far."""

    total: int = 0
    by_table: Counter[TableName] = field(default_factory=Counter)


@dataclass(slots=True)
class _Table:
    rows: TableRows
    schemas: Schemas
    without_key: Schemas


class DebeziumEnvelope:
    """Makes events of changes, and the records of the transaction topic."""

    def __init__(
        self, prefix: str, db: str, now_us: Callable[[], int], *, is_avro: bool = False
    ) -> None:
        """Take the prefix of topics, the source's database, and a clock in microseconds."""
        self._prefix = prefix
        self._db = db
        self._now_us = now_us
        self._is_avro = is_avro
        self._tables: dict[TableName, _Table] = {}
        self._counts = _Counts()

    def describe(self, table: ExportedTable) -> None:
        """Take a table as it is from here on."""
        rows = TableRows(table, is_avro=self._is_avro, is_whole=False)
        name = f"{self._prefix}.{table.schema}.{table.table}"
        key = (
            Field("", "struct", f"{name}.Key", is_optional=False, parts=rows.key_fields)
            if rows.key_fields
            else None
        )
        row = Field("before", "struct", f"{name}.Value", parts=rows.fields)
        value = Field(
            "",
            "struct",
            f"{name}.Envelope",
            is_optional=False,
            parts=(
                row,
                replace(row, name="after"),
                SOURCE_FIELD,
                BLOCK_FIELD,
                plain("op", "string", is_optional=False),
                *times(),
            ),
        )
        self._tables[table.name] = _Table(rows, Schemas(key, value), Schemas(None, value))

    def begin(self, moment: Moment) -> Iterator[Record]:
        """Begin a transaction."""
        self._counts = _Counts()
        yield self._boundary("BEGIN", moment, None, None)

    def end(self, moment: Moment) -> Iterator[Record]:
        """End a transaction."""
        counts = [
            {"data_collection": f"{schema}.{table}", "event_count": count}
            for (schema, table), count in self._counts.by_table.items()
        ]
        yield self._boundary("END", moment, self._counts.total, counts)

    def change(self, change: RowChange, moment: Moment) -> Iterator[Record]:
        """Make the events of a change."""
        table = self._tables[change.name]
        rows = table.rows
        if change.action == TRUNCATE:
            yield self._event(table, moment, change, "t")
            return
        rows.check(change)
        if change.action == INSERT:
            new = change.new or {}
            after = rows.new_row(change, is_whole=False)
            yield self._event(table, moment, change, "c", key=rows.key(new), after=after)
            return
        if change.action == DELETE:
            old = change.old
            if old is None:
                raise _no_identity(rows)
            key = rows.key(old)
            yield self._event(table, moment, change, "d", key=key, before=rows.old_row(old))
            yield self._tombstone(table, moment, change, key)
            return
        yield from self._update(table, change, moment)

    def snapshot_row(
        self, name: TableName, texts: Mapping[str, str | None], moment: Moment
    ) -> Record:
        """Make the event of a row that was there when the export began."""
        table = self._tables[name]
        change = RowChange(INSERT, name, texts)
        after = table.rows.new_row(change, is_whole=True)
        return self._event(table, moment, change, "r", key=table.rows.key(texts), after=after)

    def _update(self, table: _Table, change: RowChange, moment: Moment) -> Iterator[Record]:
        rows = table.rows
        new = change.new or {}
        old = change.old
        after = rows.new_row(change, is_whole=False)
        # A column of the key that is unchanged and too big to be sent again is the old one.
        new_key = rows.key({**(old or {}), **new})
        old_key = new_key if old is None else rows.key(old)
        if old_key != new_key and old is not None:
            headers = {_NEW_KEY: new_key or {}}
            before = rows.old_row(old)
            yield self._event(
                table, moment, change, "d", key=old_key, before=before, headers=headers
            )
            yield self._tombstone(table, moment, change, old_key)
            headers = {_OLD_KEY: old_key or {}}
            yield self._event(table, moment, change, "c", key=new_key, after=after, headers=headers)
            return
        if not table.rows.table.key and not rows.has_whole(old):
            raise _no_identity(rows)
        before_row = rows.old_row(old) if old is not None and rows.has_whole(old) else None
        yield self._event(table, moment, change, "u", key=new_key, before=before_row, after=after)

    def _event(
        self,
        table: _Table,
        moment: Moment,
        change: RowChange,
        op: str,
        *,
        key: Row | None = None,
        before: Row | None = None,
        after: Row | None = None,
        headers: Mapping[str, Row] | None = None,
    ) -> Record:
        lsn = moment.lsn if change.lsn is None else int(change.lsn)
        now = self._now_us()
        value = {
            "before": before,
            "after": after,
            "source": self._source(change.name, moment, lsn),
            "transaction": None if moment.xid is None else self._block(change.name, moment, lsn),
            "op": op,
            "ts_ms": now // 1000,
            "ts_us": now,
            "ts_ns": now * 1000,
        }
        schemas = table.without_key if key is None else table.schemas
        return Record(change.name, schemas, key, value, moment.at_us, headers or {})

    def _tombstone(
        self, table: _Table, moment: Moment, change: RowChange, key: Row | None
    ) -> Record:
        schemas = table.without_key if key is None else table.schemas
        return Record(change.name, schemas, key, None, moment.at_us, is_tombstone=True)

    def _source(self, name: TableName, moment: Moment, lsn: int) -> dict[str, Any]:
        last = None if moment.xid is None else str(moment.last_commit)
        return {
            "version": f"pgrepl-{__version__}",
            "connector": "postgresql",
            "name": self._prefix,
            "ts_ms": moment.at_us // 1000,
            "snapshot": "true" if moment.xid is None else "false",
            "db": self._db,
            "sequence": json.dumps([last, str(lsn)], separators=(",", ":")),
            "ts_us": moment.at_us,
            "ts_ns": moment.at_us * 1000,
            "schema": name[0],
            "table": name[1],
            "txId": moment.xid,
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }

    def _block(self, name: TableName, moment: Moment, lsn: int) -> dict[str, Any]:
        counts = self._counts
        counts.total += 1
        counts.by_table[name] += 1
        return {
            "id": f"{moment.xid}:{lsn}",
            "total_order": counts.total,
            "data_collection_order": counts.by_table[name],
        }

    def _boundary(
        self,
        status: str,
        moment: Moment,
        count: int | None,
        collections: Sequence[Mapping[str, Any]] | None,
    ) -> Record:
        own = f"{moment.xid}:{moment.lsn}"
        value = {
            "status": status,
            "id": own,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": moment.at_us // 1000,
        }
        return Record(None, TRANSACTION_SCHEMAS, {"id": own}, value, moment.at_us)


def _no_identity(rows: TableRows) -> CannotExportError:
    return CannotExportError(
        f"a change of {rows.shown} does not say which row it changes",
        hint=f"On the source: ALTER TABLE {rows.shown} REPLICA IDENTITY FULL; then start over with"
        " --restart --snapshot.",
    )
