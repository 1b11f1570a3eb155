"""The tables of a source, as its catalogue describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row
from psycopg.sql import Composable, Identifier

from pgrepl.postgres import Connection
from pgrepl.queries import load_query

__all__ = ["PLAIN_TYPES", "Column", "SourceTable", "read_columns", "read_tables"]

#: Built-in types whose binary form is the value and nothing else, on every version. Not among them:
#: reg* types (an OID), composites and their arrays (OIDs of their columns), extensions' types.
PLAIN_TYPES = (
    *("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "oid", "pg_lsn"),
    *("text", "varchar", "bpchar", "bytea", "uuid", "json", "jsonb"),
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
    *("inet", "cidr", "macaddr"),
)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A row of ``sql/source_tables.sql``."""

    oid: int
    schema: str
    name: str
    #: The table itself, or the root of the partitioned table that it is a partition of.
    root_schema: str
    root_name: str
    is_partitioned: bool
    is_unlogged: bool
    row_estimate: int
    #: In the order of the table, without generated ones.
    columns: Sequence[str]
    #: Whether its rows may travel in COPY's binary format.
    is_plain: bool
    #: A fingerprint: the same as long as the columns are.
    definition: str

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name, what the target knows it by."""
        return self.schema, self.name

    @property
    def identifier(self) -> Composable:
        """The table in a statement for the source."""
        return Identifier(self.schema, self.name)

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.schema}.{self.name}"


def read_tables(connection: Connection) -> Sequence[SourceTable]:
    """Return every table that could be replicated."""
    with connection.cursor(row_factory=class_row(SourceTable)) as cursor:
        return cursor.execute(
            load_query("pgrepl", "source_tables"), {"plain_types": list(PLAIN_TYPES)}
        ).fetchall()


#: Name, name of the type without its schema, which differs, and the type's modifier.
Column = tuple[str, str, int]


def read_columns(connection: Connection, oid: int) -> Sequence[Column]:
    """Return the columns of a table on either side, without generated ones, by their names."""
    return connection.execute(
        "select a.attname::text, t.typname::text, a.atttypmod from pg_attribute a"
        " join pg_type t on t.oid = a.atttypid where a.attrelid = %s::oid and a.attnum > 0"
        " and not a.attisdropped and a.attgenerated = '' order by a.attname",
        (oid,),
    ).fetchall()
