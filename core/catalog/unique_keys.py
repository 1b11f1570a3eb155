"""What tells the rows of a table apart: its unique keys, and which of them serves for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from psycopg.rows import kwargs_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["UniqueKey", "find_identity", "find_row_key", "read_unique_keys", "sent_identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """A row of ``sql/unique_keys.sql``."""

    #: The oid of the table.
    table: int = 0
    #: The name of the index.
    name: str
    columns: tuple[str, ...]
    is_primary: bool = False
    is_identity: bool = False
    is_immediate: bool = True
    is_not_null: bool = True
    #: Whether one of its columns is.
    is_generated: bool = False


def find_identity(keys: Sequence[UniqueKey]) -> UniqueKey | None:
    """Return the key that rows are found by: the replica identity's index, or the primary key."""
    usable = [key for key in keys if key.is_immediate and (key.is_identity or key.is_primary)]
    return next((key for key in usable if key.is_identity), next(iter(usable), None))


def find_row_key(keys: Sequence[UniqueKey]) -> UniqueKey | None:
    """Return a key that no two rows share at the end of a transaction, and no row is without."""
    candidates = (key for key in keys if key.is_not_null)
    return find_identity(keys) or next(candidates, None)


def sent_identity(replica_identity: str, keys: Sequence[UniqueKey]) -> UniqueKey | None:
    """Return the key that a source sends with UPDATE and DELETE under a replica identity.

    It is ``pg_class.relreplident``. None also where the whole row is sent.
    """
    return next(
        (
            key
            for key in keys
            if key.is_immediate
            and (
                (replica_identity == "d" and key.is_primary)
                or (replica_identity == "i" and key.is_identity)
            )
        ),
        None,
    )


def read_unique_keys(
    connection: Connection, tables: Iterable[int]
) -> Mapping[int, Sequence[UniqueKey]]:
    """Read the unique keys of tables, by their oids; a table that has none is not among them."""
    with connection.cursor(row_factory=kwargs_row(_unique_key)) as cursor:
        found = cursor.execute(
            load_query("pgrepl.catalog", "unique_keys"), {"tables": list(tables)}
        ).fetchall()
    return {table: tuple(keys) for table, keys in groupby(found, lambda key: key.table)}


def _unique_key(*, columns: Sequence[str], **others: Any) -> UniqueKey:  # noqa: ANN401
    return UniqueKey(columns=tuple(columns), **others)
