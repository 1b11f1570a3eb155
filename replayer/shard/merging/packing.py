"""Tables with nearly as many columns as PostgreSQL allows: staging has no room for all of them.

The last ones, as many as do not fit, are packed into one column ``x``, an array of their texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.merging.copy_text import array_text

__all__ = ["PACK", "pack_rows", "packed_columns", "packed_value", "read_types"]

#: PostgreSQL's own limit.
_MOST_COLUMNS = 1600
#: The column that holds the others.
PACK = "x"
#: As COPY escapes them; the backslash first.
_ESCAPES = ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\n", rb"\n"), (b"\r", rb"\r"))


def packed_columns(shape: Shape, key: Sequence[str], head_count: int) -> tuple[str, ...]:
    """Return the columns that staging has no room for beside some others; none of the key."""
    surplus = len(shape.carried) + head_count - _MOST_COLUMNS
    if surplus <= 0:
        return ()
    # The pack takes the place of one.
    others = [name for name in shape.carried if name not in key]
    return tuple(others[-(surplus + 1) :])


def pack_rows(
    rows: Iterable[bytes], shape: Shape, packed: Sequence[str], head_count: int
) -> Iterator[bytes]:
    """Return rows of a staging table, as COPY takes them, with columns packed at their ends."""
    places = {name: place for place, name in enumerate(shape.carried, head_count)}
    taken = [places[name] for name in packed]
    kept = [
        *range(head_count),
        *(place for name, place in places.items() if name not in set(packed)),
    ]
    for row in rows:
        values = row.split(b"\t")
        pack = array_text([values[place] for place in taken])
        for character, escape in _ESCAPES:
            pack = pack.replace(character, escape)
        yield b"\t".join([*(values[place] for place in kept), pack])


def read_types(
    connection: Connection, shape: Shape, columns: Sequence[str]
) -> Mapping[str, tuple[int, str]]:
    """Return the places of packed columns in the pack, and their types as SQL writes them.

    Without a length: a cast would cut what is too long, where an assignment refuses it.
    """
    if not columns:
        return {}
    rows = connection.execute(
        "select a.attname::text, pg_catalog.format_type(a.atttypid, -1)"
        " from pg_catalog.pg_attribute a where a.attrelid = %s::pg_catalog.regclass"
        " and a.attname = any (%s::text[])",
        (shape.identifier.as_string(), list(columns)),
    )
    types: dict[str, str] = dict(rows.fetchall())
    return {name: (number, types[name]) for number, name in enumerate(columns, 1)}


def packed_value(place: int, type_sql: str, alias: str | None = None) -> Composable:
    """Return the value of a packed column in a statement."""
    pack = Identifier(PACK) if alias is None else Identifier(alias, PACK)
    # The type is as PostgreSQL printed it.
    return SQL("({})[{}]::").format(pack, Literal(place)) + SQL(type_sql)
