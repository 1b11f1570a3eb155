"""Where copies are: the target's schema and name of each table of a source.

Schemas are in ``replication.target_schema``, copies that are not called like their tables in
``replication.target_table``. Queries join both, Python asks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from pgrepl.postgres.connect import Connection
from pgrepl.store.migrations import has_step
from pgrepl.store.sources import read_target_schemas

__all__ = ["NAMES_STEP", "CopyPlace", "Places", "move_tables", "read_copy_places", "read_places"]

NAMES_STEP = "target_tables"
"""The migration that the names need; before it, all copies are called like their tables."""

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Places:
    """The copies of one source."""

    #: Source schema to target schema.
    schemas: Mapping[str, str]
    #: Tables of the source whose copies have another name, with it.
    renamed: Mapping[_Name, str]

    def find(self, key: _Name) -> _Name | None:
        """Return where the copy of a table is, or would be.

        None: its schema is not there, or another copy has its name.
        """
        schema = self.schemas.get(key[0])
        if schema is None or (key not in self.renamed and (schema, key[1]) in self.by_place()):
            return None
        return schema, self.renamed.get(key, key[1])

    def by_place(self) -> dict[_Name, _Name]:
        """Return the tables whose copies have another name, by where those are."""
        return {
            (self.schemas[schema], name): (schema, table)
            for (schema, table), name in self.renamed.items()
            if schema in self.schemas
        }

    @property
    def in_texts(self) -> dict[_Name, str]:
        """What copies are called, by where texts have them that name tables as the source does."""
        return {
            (self.schemas[schema], table): name
            for (schema, table), name in self.renamed.items()
            if schema in self.schemas
        }

    def keys(self, places: Mapping[_Name, object]) -> dict[_Name, _Name]:
        """Return which of some places are those of copies: each with the table's name.

        What has the name of a table whose copy is called otherwise is not that copy.
        """
        schemas = {target: schema for schema, target in self.schemas.items()}
        renamed = self.by_place()
        found = {}
        for place in places:
            if place in renamed:
                found[place] = renamed[place]
            elif place[0] in schemas and (schemas[place[0]], place[1]) not in self.renamed:
                found[place] = schemas[place[0]], place[1]
        return found


def read_places(connection: Connection, source_id: int) -> Places:
    """Return where the copies of a source are, also by a schema of an older version."""
    renamed: dict[_Name, str] = {}
    if has_step(connection, NAMES_STEP):
        rows = connection.execute(
            "select schema_name::text, table_name::text, target_name::text"
            " from replication.target_table where source_id = %s",
            (source_id,),
        )
        renamed = {(schema, table): name for schema, table, name in rows}
    return Places(read_target_schemas(connection, source_id), renamed)


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """A copy that has, or is to have, another name than its table."""

    source: str
    #: The table, on the source.
    key: _Name
    place: _Name
    #: Whether something else has the name of its table where it is.
    is_name_taken: bool


def read_copy_places(
    connection: Connection, tables: Iterable[tuple[str, str, str]]
) -> Sequence[CopyPlace]:
    """Return the copies that have another name, and those of some tables: source, schema, table."""
    if not has_step(connection, NAMES_STEP):
        return ()
    wanted = list(zip(*tables, strict=True)) or [(), (), ()]
    rows = connection.execute(
        "select o.name, t.schema_name::text, t.table_name::text, s.target_schema::text,"
        " c.relname::text, c.relname <> t.table_name and y.source_id is null"
        " and exists (select from pg_class k"
        " where k.relnamespace = n.oid and k.relname = t.table_name)"
        " from replication.source_table t"
        " join replication.source o using (source_id)"
        " join replication.target_schema s"
        " on s.source_id = t.source_id and s.source_schema = t.schema_name"
        " left join replication.target_table x on (x.source_id, x.schema_name, x.table_name)"
        " = (t.source_id, t.schema_name, t.table_name)"
        # What is called like the table is that of another one.
        " left join replication.target_table y on (y.source_id, y.schema_name, y.target_name)"
        " = (t.source_id, t.schema_name, t.table_name)"
        " join pg_namespace n on n.nspname = s.target_schema"
        " join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p')"
        " and c.relname = coalesce(x.target_name,"
        " case when y.source_id is null then t.table_name end)"
        " where x.target_name is not null or (o.name, t.schema_name::text, t.table_name::text)"
        " in (select * from unnest(%s::text[], %s::text[], %s::text[])) order by 1, 2, 3",
        [list(column) for column in wanted],
    )
    return [
        CopyPlace(source, (schema, table), (there, name), is_taken)
        for source, schema, table, there, name, is_taken in rows
    ]


def move_tables(moved: Mapping[CopyPlace, str]) -> Sequence[sql.Composed]:
    """Return statements that give copies other names, and record that.

    One for each, or for all of a schema where one gets the name that another one has.
    """
    groups: dict[tuple[str, str], list[CopyPlace]] = {}
    for copy in moved:
        groups.setdefault((copy.source, copy.place[0]), []).append(copy)
    found: list[sql.Composed] = []
    for group in groups.values():
        called = {copy.place[1] for copy in group}
        is_any_taken = any(moved[copy] in called for copy in group)
        found += [
            _move({copy: moved[copy] for copy in together})
            for together in ([group] if is_any_taken else [[copy] for copy in group])
        ]
    return found


def _move(moved: Mapping[CopyPlace, str]) -> sql.Composed:
    renamed, recorded = sql.Composed([]), sql.Composed([])
    aside = len(moved) > 1
    between = {copy: f"pgrepl_name_{number}" for number, copy in enumerate(moved)}
    for copy in moved if aside else ():
        renamed += _rename(copy.place, between[copy])
    for copy, wanted in moved.items():
        there = (copy.place[0], between[copy]) if aside else copy.place
        renamed += _rename(there, wanted)
        renamed += sql.SQL(
            " DELETE FROM replication.target_table WHERE source_id = (SELECT source_id"
            " FROM replication.source WHERE name = {}) AND schema_name = {} AND table_name = {};"
        ).format(*map(sql.Literal, (copy.source, *copy.key)))
        if wanted != copy.key[1]:
            recorded += sql.SQL(
                " INSERT INTO replication.target_table SELECT source_id, {}, {}, {}"
                " FROM replication.source WHERE name = {};"
            ).format(*map(sql.Literal, (*copy.key, wanted, copy.source)))
    both = sql.SQL("BEGIN{}{} END").format(renamed, recorded)
    return sql.SQL("DO {}").format(sql.Literal(both.as_string(None)))


def _rename(place: _Name, name: str) -> sql.Composed:
    return sql.SQL(" ALTER TABLE {} RENAME TO {};").format(
        sql.Identifier(*place), sql.Identifier(name)
    )
