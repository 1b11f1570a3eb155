"""Apply a small net change without a staging table: a statement for each kind, rows in arrays.

Making and dropping a staging table costs some milliseconds, ten times as much as this. What cannot
be done this way, because keys move or a type has no array, is staged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from psycopg import RawCursor
from psycopg.adapt import Dumper
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.fold import KeyedNet
from pgrepl.replayer.shard.merging.copy_text import array_text
from pgrepl.replayer.shard.merging.keys import is_same_key
from pgrepl.replayer.shard.merging.staging import last_state

__all__ = [
    "FEW_ROWS",
    "ArrayStatement",
    "array_statements",
    "can_send_arrays",
    "start",
    "upsert_statements",
]

#: With more rows than this a staging table costs less; with more bytes COPY does.
FEW_ROWS = 500
_FEW_BYTES = 4 << 20

_Columns = tuple[str, ...]
_Made = TypeVar("_Made", bytes, bytes | None, bool)

#: What was made for a table of the target, for as long as it is known.
_made: MutableMapping[Shape, dict[object, object]] = WeakKeyDictionary()


def _once(make: Callable[..., _Made]) -> Callable[..., _Made]:
    """Make it once for a table; what was made does not outlive what is known of the table."""

    @wraps(make)
    def made(shape: Shape, *columns: _Columns) -> _Made:
        kept = _made.setdefault(shape, {})
        key = make, columns
        if key not in kept:
            kept[key] = make(shape, *columns)
        return kept[key]  # type: ignore[return-value]

    return made


class _Array:
    """The text of an array, of whatever type the statement says."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


class _ArrayDumper(Dumper):
    oid = 0

    def dump(self, obj: _Array) -> bytes:
        return obj.text


@dataclass(frozen=True, slots=True)
class ArrayStatement:
    """A statement over some rows."""

    query: bytes
    arrays: Sequence[_Array]
    #: How many rows it must touch; None: it inserts them, or nobody knows.
    expected_count: int | None


def can_send_arrays(connection: Connection, encoding: str) -> bool:
    """Whether the server takes values in an encoding as they are."""
    names = ("client_encoding", "server_encoding")
    return all(connection.info.parameter_status(name) == "UTF8" for name in names) and (
        encoding == "UTF8"
    )


def array_statements(shape: Shape, net: KeyedNet) -> Sequence[ArrayStatement] | None:
    """Return what applies a net change, in order; None when it has to be staged."""
    if len(net.rows) + len(net.removed) > FEW_ROWS or not _has_arrays(shape):
        return None
    size = 0
    updated: dict[_Columns, list[Sequence[bytes]]] = {}
    inserted: dict[_Columns, list[Sequence[bytes]]] = {}
    for key, state in net.rows.items():
        if state.old_key is not None and state.old_key != key:
            return None
        columns, values = last_state(state, shape.carried, net.key, key)
        size += sum(map(len, values))
        if size > _FEW_BYTES:
            return None
        groups = inserted if state.old_key is None else updated
        groups.setdefault(columns, []).append(values)
    places = {name: place for place, name in enumerate(shape.carried)}
    statements = []
    if net.removed:
        keys = [key if isinstance(key, tuple) else (key,) for key in net.removed]
        statements.append(
            ArrayStatement(_delete(shape, net.key), _arrays(zip(*keys, strict=True)), len(keys))
        )
    for columns, rows in updated.items():
        names = tuple(name for name in columns if name not in net.key)
        query = _update(shape, net.key, names)
        if query is None:
            return None
        sent = _pick(rows, places, net.key + names)
        statements.append(ArrayStatement(query, sent, len(rows)))
    for columns, rows in inserted.items():
        names = tuple(name for name in columns if not shape.by_name[name].is_generated)
        if not names:
            return None
        statements.append(ArrayStatement(_insert(shape, names), _pick(rows, places, names), None))
    return statements


def upsert_statements(shape: Shape, net: KeyedNet) -> Sequence[ArrayStatement] | None:
    """Return what applies a net change whatever rows are there; None when it has to be staged."""
    if len(net.rows) + len(net.removed) > FEW_ROWS or not _can_upsert(shape, net.key):
        return None
    rows: list[Sequence[bytes]] = []
    for key, state in net.rows.items():
        columns, values = last_state(state, shape.carried, net.key, key)
        if state.old_key not in (None, key) or not set(shape.stored) <= set(columns):
            return None
        rows.append(values)
    if sum(len(value) for values in rows for value in values) > _FEW_BYTES:
        return None
    statements = []
    if net.removed:
        keys = [key if isinstance(key, tuple) else (key,) for key in net.removed]
        sent = _arrays(zip(*keys, strict=True))
        statements.append(ArrayStatement(_delete(shape, net.key), sent, None))
    if rows:
        places = {name: place for place, name in enumerate(shape.carried)}
        sent = _pick(rows, places, shape.stored)
        statements.append(ArrayStatement(_upsert(shape, net.key), sent, None))
    return statements


def start(connection: Connection, statement: ArrayStatement) -> RawCursor[TupleRow]:
    """Run a statement, or in a pipeline have it run, and return the cursor that knows its count."""
    connection.adapters.register_dumper(_Array, _ArrayDumper)
    cursor = RawCursor(connection)
    return cursor.execute(statement.query, statement.arrays)


def _pick(
    rows: Sequence[Sequence[bytes]], places: Mapping[str, int], names: _Columns
) -> Sequence[_Array]:
    columns = list(zip(*rows, strict=True))
    return _arrays(columns[places[name]] for name in names)


def _arrays(columns: Iterable[Sequence[bytes]]) -> Sequence[_Array]:
    return [_Array(array_text(column)) for column in columns]


@_once
def _has_arrays(shape: Shape) -> bool:
    columns = [shape.by_name[name] for name in shape.carried]
    return all(column.array_type or column.cast_type for column in columns)


@_once
def _delete(shape: Shape, key: _Columns) -> bytes:
    statement = SQL("delete from only {} t using {} where {}")
    return statement.format(shape.identifier, _rows(shape, key), _is_key(shape, key)).as_bytes()


@_once
def _update(shape: Shape, key: _Columns, values: _Columns) -> bytes | None:
    """Return the statement; None when there is nothing that UPDATE could set."""
    if not values or any(shape.by_name[name].is_identity_always for name in values):
        return None
    assigned = SQL(", ").join(
        SQL("{} = {}").format(Identifier(name), _value(shape, name, number))
        for number, name in enumerate(values, len(key))
    )
    statement = SQL("update only {} t set {} from {} where {}")
    rows = _rows(shape, key + values)
    return statement.format(shape.identifier, assigned, rows, _is_key(shape, key)).as_bytes()


@_once
def _insert(shape: Shape, columns: _Columns) -> bytes:
    statement = SQL("insert into {} ({}) overriding system value select {} from {}")
    return statement.format(
        shape.identifier,
        SQL(", ").join(map(Identifier, columns)),
        SQL(", ").join(_value(shape, name, number) for number, name in enumerate(columns)),
        _rows(shape, columns),
    ).as_bytes()


@_once
def _can_upsert(shape: Shape, key: _Columns) -> bool:
    always = any(own.is_identity_always and own.name not in key for own in shape.columns)
    return set(key) == set(shape.key) and _has_arrays(shape) and not always


@_once
def _upsert(shape: Shape, key: _Columns) -> bytes:
    names = [name for name in shape.stored if name not in key]
    pairs = (SQL("{0} = excluded.{0}").format(Identifier(name)) for name in names)
    assigned = SQL("update set {}").format(SQL(", ").join(pairs)) if names else SQL("nothing")
    conflict = SQL(" on conflict ({}) do {}").format(SQL(", ").join(map(Identifier, key)), assigned)
    return _insert(shape, shape.stored) + conflict.as_bytes()


def _rows(shape: Shape, columns: _Columns) -> Composable:
    arrays = []
    for number, name in enumerate(columns, 1):
        array_type = shape.by_name[name].array_type or ("pg_catalog", "_text")
        arrays.append(SQL("${}::{}").format(Literal(number), Identifier(*array_type)))
    names = SQL(", ").join(Identifier(f"c{number}") for number in range(len(columns)))
    return SQL("unnest({}) s ({})").format(SQL(", ").join(arrays), names)


def _value(shape: Shape, name: str, number: int) -> Composable:
    column = shape.by_name[name]
    value = SQL("s.{}").format(Identifier(f"c{number}"))
    if column.array_type is None and column.cast_type is not None:
        return SQL("{}::{}").format(value, Identifier(*column.cast_type))
    return value


def _is_key(shape: Shape, key: _Columns) -> Composable:
    own = [SQL("t.{}").format(Identifier(name)) for name in key]
    sent = [_value(shape, name, number) for number, name in enumerate(key)]
    return is_same_key(shape, key, own, sent)
