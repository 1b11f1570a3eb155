"""Bytes become values: JSON, with or without Connect's schemas; Avro is in ``avro``."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from pgrepl.decoding.records.schema import BadSchema, Field, read_connect
from pgrepl.decoding.records.values import BadValue

__all__ = ["KEPT", "Datum", "JsonReader", "Reader", "read_json"]

#: The number of schemas that are kept; more than that are read again.
KEPT = 1000
#: The size of the texts that are kept to know schemas by.
_KEPT_BYTES = 8 << 20
_SAME_LENGTH = 8
#: What stands before a value that came with its schema.
_PAYLOAD = b'"payload":'


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
        #: Records up to their payload, by where it begins: the schema is in each of them again.
        self._heads: dict[int, list[tuple[bytes, Field | None]]] = {}
        self._kept_bytes = 0

    def read(self, data: bytes) -> Datum:
        """Read a text, and a schema where Connect's converter put one beside it."""
        at = data.find(_PAYLOAD)
        for head, schema in self._heads.get(at, ()):
            if data.startswith(head) and data.endswith(b"}"):
                try:
                    return Datum(_DECODER.decode(data[len(head) : -1].decode()), schema)
                except (ValueError, ArithmeticError, RecursionError):
                    break
        value = read_json(data)
        datum = self.interpret(value)
        if at >= 0 and datum.value is not value:
            self._keep_head(data[: at + len(_PAYLOAD)], value["schema"], datum.schema)
        return datum

    def interpret(self, value: Any) -> Datum:  # noqa: ANN401  JSON
        """Tell a value from its schema, where Connect's converter put one beside it."""
        if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
            schema = value["schema"]
            return Datum(value["payload"], None if schema is None else self._schema(schema))
        return Datum(value, None)

    def _schema(self, schema: object) -> Field:
        text = json.dumps(schema, default=str)
        known = self._schemas.get(text)
        if known is None:
            self._make_room(len(text))
            try:
                known = self._schemas[text] = read_connect(schema)
            except (BadSchema, AttributeError, TypeError) as exc:
                raise BadValue(f"its schema cannot be used: {exc}") from exc
        return known

    def _keep_head(self, head: bytes, schema: object, field: Field | None) -> None:
        """Know a record's text up to its payload again, if any payload can follow it."""
        try:
            is_head = read_json(head + b"null}") == {"schema": schema, "payload": None}
        except BadValue:
            return
        if is_head:
            self._make_room(len(head))
            # Few have the same length; of more than that the newest are kept.
            same = self._heads.setdefault(len(head) - len(_PAYLOAD), [])
            same[:] = [(head, field), *(own for own in same[: _SAME_LENGTH - 1] if own[0] != head)]

    def _make_room(self, size: int) -> None:
        count = len(self._schemas) + len(self._heads)
        if count >= KEPT or self._kept_bytes + size > _KEPT_BYTES:
            self._schemas.clear()
            self._heads.clear()
            self._kept_bytes = 0
        self._kept_bytes += size


def read_json(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Read JSON; numbers keep their digits.

    Raises
    ------
    BadValue
        when it is none.

    """
    try:
        if data[:1] == b"{" and data[1:2] > b"\0":
            return _DECODER.decode(data.decode("utf-8", "surrogatepass"))
        # It may be in another encoding of Unicode's.
        return json.loads(data, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, ArithmeticError, RecursionError) as exc:
        raise BadValue("it is not JSON") from exc


def _refuse(_: str) -> None:
    raise ValueError("not a number of JSON's")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)
