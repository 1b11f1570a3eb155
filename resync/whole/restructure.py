"""Copies that have other columns than their tables: they get the source's structure with its rows.

The table itself is altered, while it has no rows, in the transaction that puts the rows into it: so
what stands on it stays there. Readers wait for that transaction; they see the old table, then the
new one. A column that rules omit is dropped; another that the source has not may be the owner's,
and stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg
from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.copy_state import SESSION
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.apply.structure.create_table import create_table
from pgrepl.ddl_capture.apply.structure.differences import canonical_expression, canonical_type
from pgrepl.ddl_capture.apply.structure.reconcile import DroppedPart, plan_steps
from pgrepl.ddl_capture.apply.structure.reconcile_step import Step
from pgrepl.ddl_capture.apply.target_catalog import read_definitions, read_relations
from pgrepl.ddl_capture.definition import Column, TableDefinition, TableName
from pgrepl.ddl_capture.missed import read_names
from pgrepl.ddl_capture.omission import on_target
from pgrepl.ddl_capture.policy.expectation import find_code, without
from pgrepl.ddl_capture.policy.skipped import forget_others
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import reason
from pgrepl.resync.joining.late_keys import late_key
from pgrepl.resync.sides import Sides
from pgrepl.resync.whole.dependent_views import drop_views, make_views
from pgrepl.resync.whole.merge import fill
from pgrepl.resync.whole.shadow import drop_shadow, shadow_place
from pgrepl.store.skipped_code import SkippedCode, read_skipped_of, record_skipped
from pgrepl.store.tables.copy_work import add_left_out
from pgrepl.store.tables.places import read_places
from pgrepl.syntax.parse import parse_one, quoted_names, to_sql
from pgrepl.syntax.remap import rename_tables

__all__ = ["Remake"]

_AT = pg_query_pb2.AlterTableType
_RESTRICT = pg_query_pb2.DropBehavior.DROP_RESTRICT
#: A statement about a partitioned table changes its partitions, so that another one follows.
_ROUNDS = 3
#: What cannot be made here at all: what it names is missing, or it is not supported.
_IMPOSSIBLE = ("0A", "42")
#: Whose DETAIL names objects, and no row.
_NAMING = ("0A000", "2BP01")


@dataclass(frozen=True, slots=True)
class _Pair:
    """A table as it is to be, and as it is."""

    #: The source's names.
    expected: TableDefinition
    found: TableDefinition


class Remake:
    """Tables of one run whose copies get another structure."""

    def __init__(self, sides: Sides, reader: Connection, tables: Sequence[SourceTable]) -> None:
        """Read what they are like on the source, as a session sees it."""
        self._sides = sides
        self._target = sides.target
        self._names = read_names(reader, sides.target, sides.row)
        keys = {table.key for table in tables} | {_root(table) for table in tables}
        self._rules = sides.source.rules
        reported = read_definitions(reader, keys)
        self._source = {key: on_target(table, self._rules) for key, table in reported.items()}
        #: Foreign keys that are to be made again: schema, table, statement.
        self._dropped: list[tuple[str, str, str]] = []
        #: Where the copies are for others.
        self._places = read_places(sides.target, sides.source_id)

    def fingerprint(self, table: SourceTable) -> str:
        """Return what differs where the table's structure does."""
        family = [self._source[key] for key in sorted({table.key, _root(table)})]
        return hashlib.sha256(repr(family).encode()).hexdigest()

    def as_on_target(self, table: SourceTable) -> SourceTable:
        """Add the generated columns that will be plain ones on the target."""
        columns = self._expected(table.key).columns
        return table.with_generated({c.name for c in columns if c.generated is None})

    def make_shadow(self, resync_id: int, table: SourceTable) -> None:
        """Make an empty shadow with the source's columns."""
        definition = self._source[table.key]
        copied = set(table.columns)
        bare = replace(
            definition,
            partition_key=None,
            columns=[_bare(c) for c in definition.columns if c.name in copied],
        )
        tree = parse_one(create_table(bare, self._names))
        relation = tree.create_stmt.relation
        relation.schemaname, relation.relname = shadow_place(resync_id)
        relation.relpersistence = "u"
        drop_shadow(self._target, resync_id)
        self._target.execute(to_sql(tree).encode())

    def place(self, key: TableName) -> TableName:
        """Return where the copy of a table is while it has its own name."""
        return self._names.target_schema(key[0]), key[1]

    def _shown(self, key: TableName) -> str:
        return quoted_names(*(self._places.find(key) or self.place(key)))

    def swap(self, tables: Mapping[int, SourceTable], late: Sequence[str]) -> Sequence[str]:
        """Give tables of one root, by their resyncs, structure and rows, inside a transaction.

        Copies have the names of their tables in it until the rows are there.
        ``late`` are statements about their new columns. Returned is what a person should know.

        Raises
        ------
        TargetError
            naming what is in the way.

        """
        self._dropped.clear()
        self._places = read_places(self._target, self._sides.source_id)
        with self._sides.source_names():
            told = self._swap(tables, late)
        renamed = read_places(self._target, self._sides.source_id).in_texts
        add_left_out(
            self._target,
            self._sides.source_id,
            [
                late_key(
                    *(schema, table),
                    *("again for a column that changed", rename_tables(sql, renamed)),
                )
                for schema, table, sql in self._dropped
            ],
        )
        return told

    def _swap(self, tables: Mapping[int, SourceTable], late: Sequence[str]) -> list[str]:
        for statement in SESSION:
            self._target.execute(statement)
        keys = sorted({t.key for t in tables.values()} | {_root(t) for t in tables.values()})
        # What is done to a partitioned table is done to its partitions.
        keys.sort(key=lambda key: self._source[key].bound is not None)
        columns = self._changed_columns(keys)
        told = self._tell_types(keys)
        oids = [pair.found.oid for pair in self._pairs(keys).values() if pair.found.oid]
        views = drop_views(self._target, self._sides.endpoint, oids, columns) if columns else ()
        if columns:
            self._drop_foreign_keys(oids, columns, is_for_good=False)
        omitted = {name for key in keys for name in self._rules.omitted(*key)}
        self._drop_foreign_keys(oids, omitted, is_for_good=True)
        for table in tables.values():
            self._target.execute(
                SQL("delete from only {}").format(Identifier(*self.place(table.key)))
            )
        if columns:
            self._drop_expressions(keys)
        self._reach(keys)
        told += self._free_extra_columns(keys)
        for sql in late:
            self._target.execute(sql.encode())
        for resync_id, table in tables.items():
            place = Identifier(*self.place(table.key))
            fill(self._target, place, shadow_place(resync_id), table.columns)
        make_views(self._target, self._sides.endpoint, views)
        return told

    def _expected(self, key: TableName) -> TableDefinition:
        """Return the source's table without the code that is not made on the target."""
        skipped = read_skipped_of(self._target, self._sides.source_id, key)
        return without(self._source[key], skipped)

    def _pairs(self, keys: Sequence[TableName]) -> dict[TableName, _Pair]:
        found = read_definitions(self._target, [self.place(key) for key in keys])
        missing = [key for key in keys if self.place(key) not in found]
        if missing:
            raise TargetError(
                f"{self._sides.endpoint}: the copy of {shown_name(*missing[0])} was dropped"
                " meanwhile",
                hint="Run the same command again.",
            )
        return {key: _Pair(self._expected(key), found[self.place(key)]) for key in keys}

    def _changed_columns(self, keys: Sequence[TableName]) -> set[str]:
        """Return the columns that stay and become of another type, or computed otherwise.

        Where there is one, whatever is computed is computed again.
        """
        pairs = self._pairs(keys).values()
        changed = {
            column.name
            for pair in pairs
            for column in pair.expected.columns
            if (there := pair.found.find_column(column.name)) is not None
            and self._is_changed(column, there)
        }
        return changed and changed | {c.name for pair in pairs for c in _computed(pair.found)}

    def _tell_types(self, keys: Sequence[TableName]) -> list[str]:
        """Name the columns that get the source's type: here they may have been given another."""
        told = []
        for key, pair in self._pairs(keys).items():
            for column in pair.expected.columns if pair.found.bound is None else ():
                there = pair.found.find_column(column.name)
                was = "" if there is None else canonical_type(there, None)
                becomes = canonical_type(column, self._names)
                if was not in ("", becomes):
                    told.append(
                        f"column {quoted_names(column.name)} of {self._shown(key)}"
                        f" was of type {was} and is of type {becomes} now, as on the source"
                    )
        return told

    def _is_changed(self, column: Column, there: Column) -> bool:
        names = self._names
        return canonical_type(column, names) != canonical_type(there, None) or canonical_expression(
            column.generated, names
        ) != canonical_expression(there.generated, None)

    def _drop_foreign_keys(
        self, oids: Sequence[int], columns: set[str], *, is_for_good: bool
    ) -> None:
        """Drop foreign keys of other tables to columns: for good, or until they can be checked."""
        rows = self._target.execute(
            "select n.nspname::text, c.relname::text, k.conname::text, pg_get_constraintdef(k.oid)"
            " from pg_constraint k join pg_class c on c.oid = k.conrelid"
            " join pg_namespace n on n.oid = c.relnamespace"
            " where k.contype = 'f' and k.conparentid = 0 and k.confrelid = any (%(oids)s::oid[])"
            " and k.conrelid <> all (%(oids)s::oid[]) and exists (select from pg_attribute a"
            " where a.attrelid = k.confrelid and a.attnum = any (k.confkey)"
            " and a.attname = any (%(columns)s::text[])) order by 1, 2, 3",
            {"oids": list(oids), "columns": list(columns)},
        ).fetchall()
        for schema, table, name, definition in rows:
            place, key = Identifier(schema, table), Identifier(name)
            self._target.execute(SQL("alter table {} drop constraint {}").format(place, key))
            again = SQL("alter table {} add constraint {} {}").format(place, key, SQL(definition))
            sql = again.as_string(self._target)
            if not is_for_good:
                self._dropped.append((schema, table, sql))

    def _drop_expressions(self, keys: Sequence[TableName]) -> None:
        """Make generated columns plain ones: no column changes that another is computed from."""
        for key, pair in self._pairs(keys).items():
            for column in _computed(pair.found) if pair.found.bound is None else ():
                self._target.execute(
                    SQL("alter table {} alter {} drop expression").format(
                        Identifier(*self.place(key)), Identifier(column.name)
                    )
                )

    # --- structure ------------------------------------------------------------------------------

    def _reach(self, keys: Sequence[TableName]) -> None:
        there = {
            (relation.schema, relation.name)
            for relation in read_relations(self._target, self._names.schemas.values()).values()
        }
        for _ in range(_ROUNDS):
            is_any = False
            for key in keys:
                forget_others(
                    *(self._target, self._sides.source_id, key),
                    {item.key for item in find_code(self._source[key])},
                )
                pair = self._pairs([key])[key]
                omitted: set[DroppedPart] = {("column", n) for n in self._rules.omitted(*key)}
                steps = plan_steps(
                    pair.expected, pair.found, self._names, there.__contains__, omitted
                )
                for step in steps:
                    self._run(key, step)
                is_any = is_any or bool(steps)
            if not is_any:
                return

    def _run(self, key: TableName, step: Step) -> None:
        try:
            with self._target.transaction():
                self._target.execute(_restricted(step.sql).encode())
        except psycopg.errors.LockNotAvailable:
            raise
        except psycopg.Error as exc:
            if step.needless is not None and (exc.sqlstate or "").startswith(_IMPOSSIBLE):
                code = SkippedCode(
                    kind=step.needless.kind,
                    schema_name=key[0],
                    table_name=key[1],
                    name=step.needless.name,
                    definition=step.needless.definition,
                    reason=f"PostgreSQL refuses it on the target: {reason(exc)}",
                )
                record_skipped(self._target, self._sides.source_id, [code])
                return
            detail = exc.diag.message_detail if exc.sqlstate in _NAMING else None
            raise TargetError(
                f"{self._sides.endpoint}: the copy of {shown_name(*key)} cannot be given the"
                f" source's structure: {reason(exc)}" + (f" ({detail})" if detail else ""),
                hint=f"Remove what is in the way of this, and run the same command: {step.sql}",
            ) from exc

    def _free_extra_columns(self, keys: Sequence[TableName]) -> list[str]:
        """Let rows be written without columns that the source has not, and name those."""
        told = []
        for key, pair in self._pairs(keys).items():
            wanted = {column.name for column in pair.expected.columns}
            name = self._shown(key)
            for column in pair.found.columns:
                if column.name in wanted:
                    continue
                shown = quoted_names(column.name)
                must = column.is_not_null and column.default is None
                if must and column.generated is None and not column.identity:
                    self._target.execute(
                        SQL("alter table {} alter column {} drop not null").format(
                            Identifier(*self.place(key)), Identifier(column.name)
                        )
                    )
                told.append(
                    f"column {shown} of {name} is not on the source: it stays, without values; if"
                    f" it is not yours, run: alter table {name} drop column {shown}"
                )
        return told


def _root(table: SourceTable) -> TableName:
    return table.root_schema, table.root_name


def _computed(table: TableDefinition) -> Sequence[Column]:
    return [column for column in table.columns if column.generated is not None]


def _bare(column: Column) -> Column:
    return replace(
        column, is_not_null=False, default=None, generated=None, identity="", not_null_name=None
    )


def _restricted(sql: str) -> str:
    """Return a statement that drops nothing but the column it names."""
    tree = parse_one(sql)
    if not tree.HasField("alter_table_stmt"):
        return sql
    command = tree.alter_table_stmt.cmds[0].alter_table_cmd
    if command.subtype != _AT.AT_DropColumn:
        return sql
    command.behavior = _RESTRICT
    return to_sql(tree)
