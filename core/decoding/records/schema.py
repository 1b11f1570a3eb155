"""The schema of a record: Kafka Connect's types, read from Connect's JSON or from Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "INSTANTS",
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
#: Names of ours for a point in time as a number since 1970, by the unit: Connect has none.
INSTANTS = {unit: f"pgrepl.Instant.{unit}" for unit in ("ms", "us", "ns")}
#: Avro's logical types, and the names that Connect has for what they mean.
_AVRO_LOGICAL = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": INSTANTS["ms"],
    "timestamp-micros": INSTANTS["us"],
    "timestamp-nanos": INSTANTS["ns"],
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
        #: Each is read once, however often it is named; None: it is being read.
        self._named: dict[str, Field | None] = {}

    def read(self, schema: object, name: str, space: str = "") -> Field:
        if isinstance(schema, str):
            return self._read_name(schema, name, space)
        if isinstance(schema, Sequence):
            return self._read_union(schema, name, space)
        if not isinstance(schema, Mapping):
            raise BadSchema("a schema is not one of Avro's")
        return self._read_type(schema, name, space)

    def _read_name(self, kind: str, name: str, space: str) -> Field:
        for full in (kind, f"{space}.{kind}"):
            if full in self._named:
                known = self._named[full]
                # A record that contains itself has no end: what is in it is only a document.
                return Field(name, "struct") if known is None else replace(known, name=name)
        if kind not in _AVRO_TYPES:
            raise BadSchema(f'a schema has the unknown type "{kind}"')
        return Field(name, _AVRO_TYPES[kind], is_optional=False)

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
        names: list[str] = []
        if "name" in schema:
            own = str(schema["name"])
            names = [own, f"{space}.{own}"]
        self._named.update(dict.fromkeys(names))
        parts: tuple[Field, ...] = ()
        if (kind == "record" and not schema["fields"]) or (kind == "fixed" and not schema["size"]):
            # An array of such values has any number of them in a few bytes.
            raise BadSchema(f'field "{name}" is of a type without values')
        if kind == "record":
            parts = tuple(
                self.read(part["type"], str(part["name"]), space) for part in schema["fields"]
            )
        elif kind == "array":
            parts = (self.read(schema["items"], "", space),)
        elif kind == "map":
            parts = (self.read(schema["values"], "", space),)
        parameters = {str(k): str(v) for k, v in schema.get(PARAMETERS_PROPERTY, {}).items()}
        for size in ("scale", "precision"):
            if size in schema:
                parameters.setdefault(size, str(schema[size]))
        logical = schema.get(NAME_PROPERTY) or _AVRO_LOGICAL.get(schema.get("logicalType", ""))
        found = Field(
            name,
            str(schema.get("connect.type", _AVRO_TYPES[kind])),
            None if logical is None else str(logical),
            parameters,
            is_optional=False,
            parts=parts,
        )
        self._named.update(dict.fromkeys(names, found))
        return found
