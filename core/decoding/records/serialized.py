"""Bytes become values: JSON, with or without Connect's schemas; Avro is in ``avro``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from pgrepl.decoding.records.schema import BadSchema, Field, read_connect
from pgrepl.decoding.records.values import BadValue

__all__ = ["KEPT", "Datum", "JsonReader", "Reader", "read_json"]

#: The number of schemas that are kept; more than that are read again.
KEPT = 1000


class Datum(NamedTuple):
    """A key or a value, and its schema where one came along."""

    value: Any
    schema: Field | None


class Reader(Protocol):
    """Reads keys and values of one format."""

    def read(self, data: bytes) -> Datum:
        """Read one.

        Raises
        ------
        BadValue
            when it cannot be read; nothing in the reason is a value.

        """


class JsonReader:
    """Reads JSON; numbers keep their digits."""

    def __init__(self) -> None:
        """Know no schema yet."""
        self._schemas: dict[str, Field] = {}

    def read(self, data: bytes) -> Datum:
        """Read a text, and a schema where Connect's converter put one beside it."""
        return self.interpret(read_json(data))

    def interpret(self, value: Any) -> Datum:  # noqa: ANN401  JSON
        """Tell a value from its schema, where Connect's converter put one beside it."""
        if isinstance(value, Mapping) and value.keys() == {"schema", "payload"}:
            schema = value["schema"]
            return Datum(value["payload"], None if schema is None else self._schema(schema))
        return Datum(value, None)

    def _schema(self, schema: object) -> Field:
        text = json.dumps(schema, default=str)
        known = self._schemas.get(text)
        if known is None:
            if len(self._schemas) >= KEPT:
                self._schemas.clear()
            try:
                known = self._schemas[text] = read_connect(schema)
            except (BadSchema, AttributeError, TypeError) as exc:
                raise BadValue(f"its schema cannot be used: {exc}") from exc
        return known


def read_json(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Read JSON; numbers keep their digits.

    Raises
    ------
    BadValue
        when it is none.

    """
    try:
        return json.loads(data, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, ArithmeticError, RecursionError) as exc:
        raise BadValue("it is not JSON") from exc


def _refuse(_: str) -> None:
    raise ValueError("not a number of JSON's")
