"""Sequences brought up to the source's values.

WAL that is decoded holds no sequences. Their values matter on the day that applications move to the
target; until then nobody draws from them here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.catalog.sequences import read_sequences
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["read_values", "set_values"]


def read_values(source: Connection, schemas: Sequence[str]) -> Mapping[tuple[str, str], int]:
    """Return the last values of a source's sequences: schema and name to value."""
    return {
        (found.schema, found.name): found.last_value
        for found in read_sequences(source, schemas)
        if found.last_value is not None
    }


def set_values(
    target: Connection, values: Mapping[tuple[str, str], int], schemas: Mapping[str, str]
) -> Sequence[str]:
    """Bring the target's sequences up to these values, and return those that moved.

    ``schemas`` leads from source schema to target schema. What the target does not have is left
    out, and so is a value before the target's own.
    """
    known = [(schemas[schema], name, value) for (schema, name), value in values.items()]
    given = {
        "schemas": [schema for schema, _, _ in known],
        "sequences": [name for _, name, _ in known],
        "values": [value for _, _, value in known],
    }
    moved = target.execute(load_query("pgrepl.housekeeping", "set_sequences"), given).fetchall()
    reach("housekeeping.sequences_set")
    return [sequence for sequence, _ in moved]
