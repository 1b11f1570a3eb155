"""Arrow's types, which Parquet files have, as Kafka Connect's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from pyarrow import types

from pgrepl.decoding.records.schema import (
    INSTANTS,
    NAME_PROPERTY,
    PARAMETERS_PROPERTY,
    BadSchema,
    Field,
)

__all__ = ["field_of", "normal_type", "stored_type"]

_CONNECT = "org.apache.kafka.connect.data."
_TIME = "io.debezium.time."
_PREFIX = {"ms": "", "us": "Micro", "ns": "Nano"}

_PLAIN: Mapping[Callable[[pa.DataType], bool], str] = {
    types.is_boolean: "boolean",
    types.is_int8: "int8",
    types.is_int16: "int16",
    types.is_int32: "int32",
    types.is_int64: "int64",
    types.is_uint8: "int16",
    types.is_uint16: "int32",
    types.is_uint32: "int64",
    types.is_float16: "float32",
    types.is_float32: "float32",
    types.is_float64: "float64",
    types.is_string: "string",
    types.is_large_string: "string",
    types.is_string_view: "string",
    types.is_null: "string",
    types.is_binary: "bytes",
    types.is_large_binary: "bytes",
    types.is_binary_view: "bytes",
    types.is_fixed_size_binary: "bytes",
}


def _is_list(kind: pa.DataType) -> bool:
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def field_of(field: pa.Field) -> Field:
    """Return a field as Connect has it.

    Raises
    ------
    BadSchema
        when no column can have such values.

    """
    found = _field(field.name, field.type, is_optional=field.nullable)
    told = field.metadata or {}
    if found.logical is None and NAME_PROPERTY.encode() in told:
        # What our own export notes of a field; Arrow has no type for it.
        try:
            parameters = json.loads(told.get(PARAMETERS_PROPERTY.encode(), b"{}"))
        except ValueError as exc:
            raise BadSchema(f'column "{field.name}" has notes that cannot be read') from exc
        if not isinstance(parameters, Mapping):
            raise BadSchema(f'column "{field.name}" has notes that cannot be read')
        name = told[NAME_PROPERTY.encode()].decode("utf-8", "replace")
        texts = {str(key): str(own) for key, own in parameters.items()}
        return replace(found, logical=name, parameters=texts)
    return found


def _field(name: str, kind: pa.DataType, *, is_optional: bool = True) -> Field:
    if types.is_dictionary(kind):
        return _field(name, kind.value_type, is_optional=is_optional)
    own, logical, parameters = _scalar(kind)
    parts: tuple[Field, ...] = ()
    if types.is_struct(kind):
        own = "struct"
        parts = tuple(field_of(kind.field(number)) for number in range(kind.num_fields))
    elif types.is_map(kind):
        own, parts = "map", (field_of(kind.item_field.with_name("")),)
    elif _is_list(kind):
        own, parts = "array", (field_of(kind.value_field.with_name("")),)
    if not own:
        raise BadSchema(f'column "{name}" is of type {kind}, which no column of a table has')
    return Field(name, own, logical, parameters, is_optional, parts)


def _scalar(kind: pa.DataType) -> tuple[str, str | None, Mapping[str, str]]:
    """Return Connect's type, what it means, and its parameters; no type: it is no scalar."""
    if types.is_decimal(kind) or types.is_uint64(kind):
        scale, precision = (0, 20) if types.is_uint64(kind) else (kind.scale, kind.precision)
        sizes = {"scale": str(scale), "precision": str(precision)}
        return "bytes", _CONNECT + "Decimal", sizes
    if types.is_date(kind):
        return "int32", _TIME + "Date", {}
    if types.is_timestamp(kind) or types.is_time(kind):
        return "int64", _clock(kind), {}
    return next((own for is_kind, own in _PLAIN.items() if is_kind(kind)), ""), None, {}


def _clock(kind: pa.DataType) -> str:
    kind = normal_type(kind)
    unit = kind.unit
    if types.is_timestamp(kind) and kind.tz is not None:
        return INSTANTS[unit]
    return _TIME + _PREFIX[unit] + ("Timestamp" if types.is_timestamp(kind) else "Time")


def normal_type(kind: pa.DataType) -> pa.DataType:
    """Return the type from which values can be cast to the stored one."""
    if types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if types.is_date64(kind):
        return pa.date32()
    if types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if types.is_time32(kind):
        return pa.time64("us")
    return _rebuilt(kind, normal_type)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values come as Connect has them: times as numbers."""
    if types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_date(kind):
        return pa.int32()
    if types.is_timestamp(kind) or types.is_time(kind):
        return pa.int64()
    return _rebuilt(kind, stored_type)


def _rebuilt(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with the types in it changed."""
    if types.is_struct(kind):
        own = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([(part.name, change(part.type)) for part in own])
    if types.is_map(kind):
        return pa.map_(kind.key_type, change(kind.item_type))
    if _is_list(kind):
        return pa.list_(change(kind.value_type))
    return kind
