"""The tables of a source, as its catalogue describes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg.rows import class_row
from psycopg.sql import SQL, Composable, Identifier

from pgrepl.config.rules import Mask, Rules
from pgrepl.masking import mask_expression, rows_of
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "PLAIN_TYPES",
    "Column",
    "SourceTable",
    "is_copy_of",
    "read_columns",
    "read_plain_columns",
    "read_table_names",
    "read_tables",
]

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
    #: In the order of the table, without generated ones, unless they are copied.
    columns: Sequence[str]
    #: Whether its rows may travel in COPY's binary format.
    is_plain: bool
    #: A fingerprint: the same as long as the columns are.
    definition: str
    #: The same with generated columns.
    all_columns: Sequence[str] = ()
    is_all_plain: bool = False
    #: Of columns that reach the target masked, and of those that do not, which are not among the
    #: columns above.
    masks: Mapping[str, Mask] = field(default_factory=dict)
    #: The condition of the rows that reach the target; empty: all do.
    where: str = ""

    def selected(self, prefix: Sequence[str] = ()) -> Composable:
        """Return the list of its columns in a SELECT on the source, masks applied.

        Nothing else reads rows of a source that go to the target.
        """
        return SQL(", ").join(
            mask_expression(self.masks[name], Identifier(*prefix, name))
            if name in self.masks
            else Identifier(*prefix, name)
            for name in self.columns
        )

    @property
    def omitted(self) -> frozenset[str]:
        """The columns that the target does not have."""
        return frozenset(name for name, mask in self.masks.items() if mask.kind == "omit")

    @property
    def rules(self) -> str | None:
        """A fingerprint of what rules do to it; None: nothing."""
        if not self.masks and not self.where:
            return None
        masks = {name: mask.description for name, mask in sorted(self.masks.items())}
        return json.dumps([masks, self.where] if self.where else masks)

    @property
    def rows(self) -> Composable:
        """What stands after FROM in a SELECT of its own rows that reach the target, named t."""
        return rows_of(self.identifier, self.where)

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name, what the target knows it by."""
        return self.schema, self.name

    def with_generated(self, plain: Collection[str]) -> SourceTable:
        """Return the table with those generated columns that are plain ones on the target."""
        columns = [n for n in self.all_columns if n in plain or n in self.columns]
        if len(columns) == len(self.columns):
            return self
        return replace(self, columns=columns, is_plain=self.is_all_plain)

    @property
    def identifier(self) -> Composable:
        """The table in a statement for the source."""
        return Identifier(self.schema, self.name)

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.schema}.{self.name}"


def read_tables(connection: Connection, rules: Rules) -> Sequence[SourceTable]:
    """Return every table that could be replicated, with what rules do to it."""
    with connection.cursor(row_factory=class_row(SourceTable)) as cursor:
        tables = cursor.execute(
            load_query("pgrepl.catalog", "source_tables"), {"plain_types": list(PLAIN_TYPES)}
        ).fetchall()
    if not rules.has_effects:
        return tables
    return [_with_rules(table, rules) for table in tables]


def read_table_names(connection: Connection) -> Mapping[int, tuple[str, str]]:
    """Return what every table that could be replicated is called, by its OID."""
    return {table.oid: table.key for table in read_tables(connection, Rules())}


def _with_rules(table: SourceTable, rules: Rules) -> SourceTable:
    omitted = rules.omitted(*table.key)
    return replace(
        table,
        masks=rules.resolved_masks(*table.key),
        where=rules.where(*table.key),
        columns=[name for name in table.columns if name not in omitted],
        all_columns=[name for name in table.all_columns if name not in omitted],
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table on either side."""

    name: str
    #: Without its schema, which differs.
    type_name: str
    type_modifier: int
    is_generated: bool


def read_columns(connection: Connection, oid: int) -> Sequence[Column]:
    """Return the columns of a table on either side, by their names."""
    with connection.cursor(row_factory=class_row(Column)) as cursor:
        return cursor.execute(
            "select a.attname::text as name, t.typname::text as type_name,"
            " a.atttypmod as type_modifier, a.attgenerated <> '' as is_generated"
            " from pg_attribute a join pg_type t on t.oid = a.atttypid"
            " where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped"
            " order by a.attname",
            (oid,),
        ).fetchall()


def is_copy_of(
    source: Sequence[Column], target: Sequence[Column], omitted: Collection[str] = ()
) -> bool:
    """Whether a table of the target can hold the rows of one of the source.

    It has none of the columns that are omitted. A generated column may be a plain one there, or be
    missing. One that is generated there too is computed. Rows are copied by the names of columns:
    their order, and what the target's owner added, is no matter of a copy's.
    """
    there = {column.name: column for column in target}
    if any(name in there for name in omitted):
        return False
    for column in source:
        if column.name in omitted:
            continue
        copy = there.get(column.name)
        if copy is None or copy.is_generated:
            if not column.is_generated:
                return False
        elif (column.type_name, column.type_modifier) != (copy.type_name, copy.type_modifier):
            return False
    return True


def read_plain_columns(
    connection: Connection, tables: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return of tables of the target, by schema and name, the columns that are not generated."""
    keys = list(tables)
    rows = connection.execute(
        "select n.nspname::text, c.relname::text, array_agg(a.attname::text)"
        " from unnest(%s::text[], %s::text[]) as w (schema_name, table_name)"
        " join pg_namespace n on n.nspname = w.schema_name"
        " join pg_class c on c.relnamespace = n.oid and c.relname = w.table_name"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
        " and a.attgenerated = '' group by 1, 2",
        ([schema for schema, _ in keys], [name for _, name in keys]),
    ).fetchall()
    return {(schema, name): frozenset(columns) for schema, name, columns in rows}
