"""Keys and values of records as JSON, with or without Connect's schemas beside them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from pgrepl.decoding.records.schema import Field
from pgrepl.export.record import Record, Schemas

__all__ = ["JsonWriter", "connect_schema", "to_json"]

#: Connect's converter has other names for two of Connect's own types.
_JSON_TYPES = {"float32": "float", "float64": "double"}


def to_json(value: object) -> str:
    """Print a value; bytes are base64."""
    return json.dumps(
        value, default=_base64, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def connect_schema(field: Field, *, is_part: bool = False) -> dict[str, Any]:
    """Return a schema as Connect's JSON converter prints it."""
    schema: dict[str, Any] = {"type": _JSON_TYPES.get(field.type, field.type)}
    if field.type == "struct":
        schema["fields"] = [connect_schema(part, is_part=True) for part in field.parts]
    elif field.type == "array":
        schema["items"] = connect_schema(field.parts[0])
    schema["optional"] = field.is_optional
    if field.logical is not None:
        schema["name"] = field.logical
        schema["version"] = 1
    if field.parameters:
        schema["parameters"] = dict(field.parameters)
    if is_part:
        schema["field"] = field.name
    return schema


class JsonWriter:
    """Prints records."""

    def __init__(self, *, has_schemas: bool) -> None:
        """Print Connect's schemas beside payloads, or payloads alone."""
        self._has_schemas = has_schemas
        self._texts: dict[Schemas, tuple[str, str]] = {}

    def key(self, record: Record, topic: str = "") -> bytes | None:  # noqa: ARG002  as Avro's
        """Print the key of a record; None: it has none."""
        return self._print(record.schemas, record.key, 0)

    def value(self, record: Record, topic: str = "") -> bytes | None:  # noqa: ARG002  as Avro's
        """Print the value of a record; None: it has none."""
        return self._print(record.schemas, record.value, 1)

    def header(self, record: Record, key: Mapping[str, Any]) -> bytes:
        """Print another key of the same table."""
        return self._print(record.schemas, key, 0) or b""

    def _print(self, schemas: Schemas, value: Mapping[str, Any] | None, which: int) -> bytes | None:
        if value is None:
            return None
        if not self._has_schemas:
            return to_json(value).encode()
        texts = self._texts.get(schemas)
        if texts is None:
            key = "null" if schemas.key is None else to_json(connect_schema(schemas.key))
            texts = self._texts[schemas] = key, to_json(connect_schema(schemas.value))
        return f'{{"schema":{texts[which]},"payload":{to_json(value)}}}'.encode()
