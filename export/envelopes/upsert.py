"""Changes as upserts: the value is the row, and null where the row of the key is deleted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgrepl.config.naming import shown_name
from pgrepl.decoding.changes import DELETE, INSERT, TRUNCATE
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium import Moment
from pgrepl.export.envelopes.table_rows import CannotExportError, Row, TableRows
from pgrepl.export.record import Record, Schemas
from pgrepl.export.tables import ExportedTable, TableName

__all__ = ["UpsertEnvelope"]


@dataclass(frozen=True, slots=True)
class _Table:
    rows: TableRows
    schemas: Schemas


class UpsertEnvelope:
    """Makes records of changes."""

    def __init__(self, prefix: str, *, is_avro: bool = False) -> None:
        """Take the prefix of topics."""
        self._prefix = prefix
        self._is_avro = is_avro
        self._tables: dict[TableName, _Table] = {}

    def describe(self, table: ExportedTable) -> None:
        """Take a table as it is from here on."""
        rows = TableRows(table, is_avro=self._is_avro, is_whole=True)
        name = f"{self._prefix}.{table.schema}.{table.table}"
        schemas = Schemas(
            Field("", "struct", f"{name}.Key", is_optional=False, parts=rows.key_fields),
            Field("", "struct", f"{name}.Value", is_optional=False, parts=rows.fields),
        )
        self._tables[table.name] = _Table(rows, schemas)

    def begin(self, moment: Moment) -> Iterator[Record]:  # noqa: ARG002  no record says it
        """Return nothing."""
        return iter(())

    def end(self, moment: Moment) -> Iterator[Record]:  # noqa: ARG002  no record says it
        """Return nothing."""
        return iter(())

    def change(self, change: RowChange, moment: Moment) -> Iterator[Record]:
        """Make the records of a change."""
        table = self._tables[change.name]
        rows = table.rows
        if change.action == TRUNCATE:
            raise CannotExportError(
                f"{rows.shown} was emptied by TRUNCATE, which an upsert has no form for",
                hint="Use --envelope debezium, or empty tables by DELETE; then start over with"
                " --restart --snapshot.",
            )
        rows.check(change)
        new, old = change.new or {}, change.old
        if change.action == DELETE:
            yield self._record(table, _key(rows, old or {}), None, moment)
            return
        key = _key(rows, {**(old or {}), **new})
        if change.action != INSERT and old is not None:
            old_key = _key(rows, old)
            if old_key != key:
                yield self._record(table, old_key, None, moment)
        yield self._record(table, key, rows.new_row(change, is_whole=True), moment)

    def snapshot_row(
        self, name: TableName, texts: Mapping[str, str | None], moment: Moment
    ) -> Record:
        """Make the record of a row that was there when the export began."""
        table = self._tables[name]
        row = table.rows.new_row(RowChange(INSERT, name, texts), is_whole=True)
        return self._record(table, _key(table.rows, texts), row, moment)

    def _record(self, table: _Table, key: Row, value: Row | None, moment: Moment) -> Record:
        return Record(table.rows.table.name, table.schemas, key, value, moment.at_us)


def _key(rows: TableRows, texts: Mapping[str, str | None]) -> Row:
    key = rows.key(texts)
    if key is None:
        raise CannotExportError(
            f"{shown_name(*rows.table.name)} has no key, so that its rows cannot be upserted",
            hint="Give it a primary key, leave it out, or use --envelope debezium.",
        )
    return key
