"""The formats of files: JSON lines, and Parquet; a line or row has the key and the value."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from pgrepl.decoding.records.schema import NAME_PROPERTY, PARAMETERS_PROPERTY, Field
from pgrepl.errors import ConfigError
from pgrepl.export.record import Record, Schemas
from pgrepl.export.sinks.json_records import JsonWriter

__all__ = ["FileFormat", "FormatName", "JsonLinesFormat", "OpenFile", "ParquetFormat"]

FormatName = Literal["json", "parquet"]
#: Rows of Parquet that are gathered before they are written.
_GROUP_ROWS = 10_000


class OpenFile(Protocol):
    """A file that is being written."""

    def write(self, record: Record) -> None:
        """Add a record."""

    def close(self) -> None:
        """Write what is left, and close it."""


class FileFormat(Protocol):
    """A format."""

    suffix: str
    #: Whether all records of a file have the same schemas.
    is_typed: bool
    #: Whether a file that was closed can be added to.
    can_append: bool

    def open(self, path: Path, schemas: Schemas) -> OpenFile:
        """Make a file, or open it to add to it."""


class JsonLinesFormat:
    """A JSON object a line."""

    suffix = ".jsonl"
    is_typed = False
    can_append = True

    def __init__(self, *, has_schemas: bool) -> None:
        """Put Connect's schemas beside keys and values, or not."""
        self._writer = JsonWriter(has_schemas=has_schemas)

    def open(self, path: Path, schemas: Schemas) -> OpenFile:  # noqa: ARG002  each line has its own
        """Open a file to add to it."""
        return _JsonLines(path, self._writer)


class _JsonLines:
    def __init__(self, path: Path, writer: JsonWriter) -> None:
        self._file = path.open("ab")
        self._writer = writer

    def write(self, record: Record) -> None:
        key, value = self._writer.key(record), self._writer.value(record)
        line = b'{"key":%b,"value":%b' % (key or b"null", value or b"null")
        if record.headers:
            headers = (
                b'"%b":%b' % (name.encode(), self._writer.header(record, own))
                for name, own in record.headers.items()
            )
            line += b',"headers":{%b}' % b",".join(headers)
        self._file.write(line + b"}\n")

    def close(self) -> None:
        self._file.close()


class ParquetFormat:
    """Columns ``key`` and ``value``, of the types that the schemas say."""

    suffix = ".parquet"
    is_typed = True
    can_append = False

    def __init__(self) -> None:
        """Load what writes it.

        Raises
        ------
        ConfigError
            when that is not installed.

        """
        try:
            self._arrow = import_module("pyarrow")
            self._parquet = import_module("pyarrow.parquet")
        except ModuleNotFoundError as exc:
            raise ConfigError(
                f"package {exc.name} is missing, which Parquet needs",
                hint="Install pgrepl with it: pip install 'pgrepl[parquet]'",
            ) from exc

    def open(self, path: Path, schemas: Schemas) -> OpenFile:
        """Make a file."""
        fields = [("value", self.type_of(schemas.value))]
        if schemas.key is not None:
            fields.insert(0, ("key", self.type_of(schemas.key)))
        schema = self._arrow.schema(fields)
        return _ParquetFile(self._arrow, self._parquet.ParquetWriter(path, schema), schema)

    def type_of(self, field: Field) -> Any:  # noqa: ANN401  a type of pyarrow's
        """Return the type of a field's values."""
        arrow = self._arrow
        if field.type == "struct":
            return arrow.struct([self._field_of(part, part.name) for part in field.parts])
        if field.type == "array":
            return arrow.list_(self._field_of(field.parts[0], "element"))
        return getattr(arrow, _ARROW_TYPES.get(field.type, field.type))()

    def _field_of(self, field: Field, name: str) -> Any:  # noqa: ANN401  a field of pyarrow's
        """Return a field that notes what Arrow has no type for, as Avro's schemas do."""
        notes = {}
        if field.logical is not None:
            notes[NAME_PROPERTY] = field.logical
            notes[PARAMETERS_PROPERTY] = json.dumps(dict(field.parameters))
        kind = self.type_of(field)
        return self._arrow.field(name, kind, nullable=field.is_optional, metadata=notes or None)


#: Where pyarrow has another name than Connect.
_ARROW_TYPES = {"boolean": "bool_", "bytes": "binary"}


class _ParquetFile:
    def __init__(self, arrow: Any, writer: Any, schema: Any) -> None:  # noqa: ANN401  pyarrow's
        self._arrow = arrow
        self._writer = writer
        self._schema = schema
        self._rows: list[dict[str, Any]] = []

    def write(self, record: Record) -> None:
        row = {"value": record.value}
        if record.schemas.key is not None:
            row["key"] = record.key
        self._rows.append(row)
        if len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []
