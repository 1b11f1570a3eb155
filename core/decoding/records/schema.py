"""The schema of a record: Kafka Connect's types, read from Connect's JSON or from Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "NAME_PROPERTY",
    "PARAMETERS_PROPERTY",
    "BadSchema",
    "Field",
    "read_avro",
    "read_connect",
]

#: Avro's types without a name, and Connect's.
_AVRO_TYPES = {
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
    "enum": "string",
    "fixed": "bytes",
    "array": "array",
    "map": "map",
    "record": "struct",
}
#: Avro's logical types, and the names that Connect has for what they mean.
_AVRO_LOGICAL = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "uuid": "io.debezium.data.Uuid",
}
#: Where Avro's schemas, and our Parquet files, have the name and the parameters of Connect's type.
NAME_PROPERTY = "connect.name"
PARAMETERS_PROPERTY = "connect.parameters"
_SCALARS = frozenset(
    {"int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "bytes"}
)


class BadSchema(ValueError):
    """A schema that cannot be read, or that no table can have."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record, or what an array consists of."""

    name: str
    #: One of Connect's types.
    type: str
    #: What the value means, where the type does not say it all.
    logical: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_optional: bool = True
    #: Of a struct: its fields. Of an array or a map: its values.
    parts: tuple[Field, ...] = ()

    def part(self, name: str) -> Field | None:
        """Return a field of a struct."""
        return next((part for part in self.parts if part.name == name), None)


def read_connect(schema: object, name: str = "") -> Field:
    """Read what Connect's JSON converter puts beside a payload.

    Raises
    ------
    BadSchema
        when it is none.

    """
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type"), str):
        raise BadSchema("a schema is not one of Kafka Connect's")
    kind, logical = schema["type"], schema.get("name")
    if not isinstance(logical, str | None):
        raise BadSchema("a schema's name is no text")
    parameters = schema.get("parameters") or {}
    parts: tuple[Field, ...] = ()
    if kind == "struct":
        fields = schema.get("fields")
        if not isinstance(fields, Sequence):
            raise BadSchema("a schema has a struct without fields")
        parts = tuple(read_connect(part, str(part.get("field", ""))) for part in fields)
    elif kind == "array":
        parts = (read_connect(schema.get("items")),)
    elif kind == "map":
        parts = (read_connect(schema.get("values")),)
    elif kind == "float":
        kind = "float32"
    elif kind == "double":
        kind = "float64"
    if kind not in _SCALARS and not parts and kind not in ("struct", "array", "map"):
        raise BadSchema(f'a schema has the unknown type "{kind}"')
    return Field(
        name,
        kind,
        logical,
        {str(key): str(value) for key, value in parameters.items()},
        bool(schema.get("optional", False)),
        parts,
    )


def read_avro(schema: object, name: str = "") -> Field:
    """Read an Avro schema.

    Raises
    ------
    BadSchema
        when it is none, or has a choice of types that no column can have.

    """
    return _Avro().read(schema, name)


class _Avro:
    """Reads one schema: a name defined in it stands for its type from there on."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}

    def read(self, schema: object, name: str, space: str = "") -> Field:
        if isinstance(schema, str):
            known = self._named.get(schema) or self._named.get(f"{space}.{schema}")
            if known is not None:
                return self.read(known, name, space)
            if schema not in _AVRO_TYPES:
                raise BadSchema(f'a schema has the unknown type "{schema}"')
            return Field(name, _AVRO_TYPES[schema], is_optional=False)
        if isinstance(schema, Sequence):
            return self._read_union(schema, name, space)
        if not isinstance(schema, Mapping):
            raise BadSchema("a schema is not one of Avro's")
        return self._read_type(schema, name, space)

    def _read_union(self, schema: Sequence[object], name: str, space: str) -> Field:
        types = [kind for kind in schema if kind != "null"]
        if len(types) != 1:
            raise BadSchema(f'field "{name}" has a choice of types')
        own = self.read(types[0], name, space)
        is_optional = len(types) < len(schema)
        return Field(name, own.type, own.logical, own.parameters, is_optional, own.parts)

    def _read_type(self, schema: Mapping[str, Any], name: str, space: str) -> Field:
        kind = schema.get("type")
        if not isinstance(kind, str) or kind not in _AVRO_TYPES:
            return self.read(kind, name, space)
        space = str(schema.get("namespace", space))
        if "name" in schema:
            self._named[f"{space}.{schema['name']}" if space else schema["name"]] = schema
            self._named[str(schema["name"])] = schema
        parts: tuple[Field, ...] = ()
        if kind == "record":
            parts = tuple(
                self.read(part["type"], str(part["name"]), space) for part in schema["fields"]
            )
        elif kind == "array":
            parts = (self.read(schema["items"], "", space),)
        elif kind == "map":
            parts = (self.read(schema["values"], "", space),)
        parameters = {str(k): str(v) for k, v in schema.get(PARAMETERS_PROPERTY, {}).items()}
        for own in ("scale", "precision"):
            if own in schema:
                parameters.setdefault(own, str(schema[own]))
        logical = schema.get(NAME_PROPERTY) or _AVRO_LOGICAL.get(schema.get("logicalType", ""))
        return Field(
            name,
            str(schema.get("connect.type", _AVRO_TYPES[kind])),
            None if logical is None else str(logical),
            parameters,
            is_optional=False,
            parts=parts,
        )
