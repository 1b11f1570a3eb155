"""Which part of a record of a file is its key, and which its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.serialized import KEPT, Datum

__all__ = ["split"]

_KEY, _VALUE = "key", "value"


def split(datum: Datum, key: Sequence[str]) -> tuple[Datum | None, Datum | None]:
    """Return the key and the value of a record; without a key it has none.

    An object of ``key`` and ``value`` says both. Any other is a row, or an event with rows, and
    ``key`` names its columns.
    """
    value, schema = datum
    if not isinstance(value, Mapping):
        return None, datum
    if (_KEY in value and value.keys() <= {_KEY, _VALUE}) or _is_event_alone(value):
        return _part(value, schema, _KEY), _part(value, schema, _VALUE)
    row, row_schema = _row(value, schema)
    if not key or row is None or any(name not in row for name in key):
        return None, datum
    own = None if row_schema is None else _key_schema(_parts(row_schema, key))
    return Datum({name: row[name] for name in key}, own), datum


def _is_event_alone(value: Mapping[str, object]) -> bool:
    """Whether it is an event of a table without a key, in a format that has no null keys."""
    own = value.get(_VALUE)
    return value.keys() == {_VALUE} and isinstance(own, Mapping) and {"op", "source"} <= own.keys()


def _part(value: Mapping[str, object], schema: Field | None, name: str) -> Datum | None:
    own = value.get(name)
    return None if own is None else Datum(own, None if schema is None else schema.part(name))


def _row(
    value: Mapping[str, object], schema: Field | None
) -> tuple[Mapping[str, object] | None, Field | None]:
    """Return the row that has the key: the record itself, or what an event is about."""
    if not {"op", "source"} <= value.keys():
        return value, schema
    name = "before" if value.get("after") is None else "after"
    row = value.get(name)
    found = row if isinstance(row, Mapping) else None
    return found, None if schema is None else schema.part(name)


@lru_cache(maxsize=KEPT)
def _key_schema(parts: tuple[Field, ...]) -> Field:
    """Return the schema of a key: the same one for the same columns."""
    return Field("", "struct", parts=parts)


def _parts(schema: Field, key: Sequence[str]) -> tuple[Field, ...]:
    found = (schema.part(name) for name in key)
    return tuple(part for part in found if part is not None)
