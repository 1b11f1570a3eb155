"""Sequences, as the catalogue of either side describes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Sequence", "read_sequences"]


@dataclass(frozen=True, slots=True)
class Sequence:
    """A row of ``sql/sequences.sql``."""

    schema: str
    name: str
    data_type: str
    increment_by: int
    is_cycle: bool
    #: None for one that was never drawn from, or that the role may not read.
    last_value: int | None


def read_sequences(connection: Connection, schemas: Iterable[str]) -> list[Sequence]:
    """Read the sequences of schemas."""
    with connection.cursor(row_factory=class_row(Sequence)) as cursor:
        return cursor.execute(
            load_query("pgrepl.catalog", "sequences"), {"schemas": list(schemas)}
        ).fetchall()
