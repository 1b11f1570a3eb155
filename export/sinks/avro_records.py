"""Keys and values of records as Avro in Confluent's framing, with their schemas in a registry."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from pgrepl.decoding.records.registry import Registry
from pgrepl.decoding.records.schema import NAME_PROPERTY, PARAMETERS_PROPERTY, Field
from pgrepl.export.envelopes.table_rows import CannotExportError
from pgrepl.export.record import Record
from pgrepl.export.sinks.json_records import to_json

__all__ = ["AvroWriter", "avro_schema"]

_TYPES = {
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_MAGIC = struct.Struct(">bI")


def avro_schema(field: Field) -> Any:  # noqa: ANN401  JSON
    """Return a schema as Connect's converter has it.

    Raises
    ------
    CannotExportError
        when a column has a name that Avro has not.

    """
    return _schema(field, set())


def _schema(field: Field, known: set[str]) -> Any:  # noqa: ANN401  JSON
    own = _plain(field, known)
    return ["null", own] if field.is_optional else own


def _plain(field: Field, known: set[str]) -> Any:  # noqa: ANN401  JSON
    if field.type == "struct":
        return _record(field, known)
    schema: dict[str, Any] = {"type": _TYPES.get(field.type, field.type)}
    if field.type == "array":
        schema["items"] = _schema(field.parts[0], known)
    if field.type == "int16":
        schema["connect.type"] = "int16"
    if field.logical is not None:
        schema["connect.version"] = 1
        schema[NAME_PROPERTY] = field.logical
    if field.parameters:
        schema[PARAMETERS_PROPERTY] = dict(field.parameters)
    return schema if len(schema) > 1 else schema["type"]


def _record(field: Field, known: set[str]) -> Any:  # noqa: ANN401  JSON
    space, _, name = _avro_name(field.logical or "Record").rpartition(".")
    full = f"{space}.{name}" if space else name
    if full in known:
        return full
    known.add(full)
    for part in field.parts:
        if not _NAME.fullmatch(part.name):
            raise CannotExportError(
                f'column "{part.name}" has a name that Avro has not',
                hint="Use --format json, or leave the table out.",
            )
    return {
        "type": "record",
        "name": name,
        "namespace": space,
        "fields": [
            {
                "name": part.name,
                "type": _schema(part, known),
                **({"default": None} if part.is_optional else {}),
            }
            for part in field.parts
        ],
        "connect.version": 1,
        NAME_PROPERTY: field.logical,
    }


def _avro_name(name: str) -> str:
    parts = (_UNSAFE.sub("_", part) for part in name.split("."))
    return ".".join(part if not part[:1].isdigit() else f"_{part}" for part in parts)


class AvroWriter:
    """Writes records; each schema is registered before the first of its records."""

    def __init__(self, registry: Registry) -> None:
        """Register nothing yet."""
        self._registry = registry
        self._known: dict[tuple[str, int], tuple[Field, int, Any]] = {}

    def key(self, record: Record, topic: str) -> bytes | None:
        """Write the key of a record; None: it has none."""
        if record.key is None or record.schemas.key is None:
            return None
        return self._write(f"{topic}-key", record.schemas.key, record.key)

    def value(self, record: Record, topic: str) -> bytes | None:
        """Write the value of a record; None: it has none."""
        if record.value is None:
            return None
        return self._write(f"{topic}-value", record.schemas.value, record.value)

    def header(self, record: Record, key: Mapping[str, Any]) -> bytes:  # noqa: ARG002  as JSON's
        """Print another key of the same table; headers have no schema in a registry."""
        return to_json(key).encode()

    def _write(self, subject: str, field: Field, value: Mapping[str, Any]) -> bytes:
        found = self._known.get((subject, id(field)))
        if found is None:
            schema = avro_schema(field)
            number = self._registry.register(subject, to_json(schema))
            found = self._known[subject, id(field)] = field, number, parse_schema(schema)
        _, number, parsed = found
        body = BytesIO()
        body.write(_MAGIC.pack(0, number))
        schemaless_writer(body, parsed, value)
        return body.getvalue()
