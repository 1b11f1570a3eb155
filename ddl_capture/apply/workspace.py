"""The target while one command is applied: its names, its session, and what the command did to it.

What a statement did to schemas and tables is read from the catalogue before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.sql import SQL, Identifier

from pgrepl.catalog.ownership import hand_over, owns
from pgrepl.config.model import SourceConfig
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture.apply.parking import check_parked
from pgrepl.ddl_capture.apply.statement.qualify import CaptureMap, make_map, new_target_schema
from pgrepl.ddl_capture.apply.target_catalog import (
    TargetRelation,
    TargetTables,
    empty,
    read_definitions,
    read_family,
    read_members,
    read_outside_dependents,
    read_schema_oids,
    read_tables,
    record_schemas,
    record_tables,
)
from pgrepl.ddl_capture.apply.target_session import (
    Environment,
    in_force,
    make_environment,
    resolve_schemas,
)
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.functions import used_sequences
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.store.ddl_standing import Standing
from pgrepl.store.parked import read_interrupted, read_parkings
from pgrepl.store.resync.awaited import await_copy, find_unknown, read_awaited
from pgrepl.store.resync.interrupted import release_interrupted
from pgrepl.store.resync.joins import read_joining
from pgrepl.store.resync.resync_queue import mark_due, withdraw_due
from pgrepl.store.sources import add_target_schema, read_target_schemas
from pgrepl.store.tables.source_tables import (
    are_copied_after,
    is_replicated,
    read_source_oids,
    read_source_tables,
    set_source_oid,
)
from pgrepl.store.tables.table_marks import mark_changed, mark_void
from pgrepl.store.tables.table_names import forget_unknown, remove_table
from pgrepl.syntax.parse import Tree, walk

__all__ = ["Workspace"]

#: Commands that make nothing with an owner of its own, unless a table.
_MAKING_NOTHING = frozenset(
    {"ALTER INDEX", "ALTER TABLE", "COMMENT", "CREATE INDEX", "DROP INDEX", "DROP TABLE"}
)


@dataclass(slots=True)
class Workspace:
    """The part of the target that belongs to a source, in the caller's open transaction."""

    connection: Connection
    source: SourceConfig
    captured: CapturedDdl
    event: CapturedEvent
    #: What the command meets there.
    standing: Standing
    #: The schemas that are there: source schema to target schema.
    known: dict[str, str] = field(default_factory=dict)
    #: Those, and what others would be called.
    names: CaptureMap = field(default_factory=lambda: CaptureMap({}))
    #: Schemas of the source whose name on the target is that of a schema not owned by pgrepl.
    clashes: dict[str, str] = field(default_factory=dict)
    #: Tables of the target that the command made.
    made: set[TableName] = field(default_factory=set)
    #: What a person reads in the history.
    notes: list[str] = field(default_factory=list)
    #: The source's schemas and tables on the target by their OIDs, since the last statement.
    _tables: TargetTables | None = None

    @property
    def source_id(self) -> int:
        """The source's number on the target."""
        return self.captured.source.source_id

    @property
    def search_path(self) -> list[str]:
        """The search path that the command had, in the target's names."""
        return self.names.search_path(list(self.event.path))

    def learn_names(self, schemas: Iterable[str], followed: Collection[str] = ()) -> None:
        """Map schemas of the source, those too that do not exist on the target yet.

        Into those that are ``followed`` goes what is replicated, whether the patterns match them.
        """
        self.known = read_target_schemas(self.connection, self.source_id)
        new: dict[str, str] = {}
        for schema in set(schemas) - set(self.known):
            is_followed = schema in followed
            target = new_target_schema(
                self.source, self.captured.source.dbname, schema, is_followed=is_followed
            )
            if target is not None:
                new[schema] = target
        # What is there under the name and not pgrepl's stays out of reach.
        taken = set(read_schema_oids(self.connection, new.values()).values()) if new else set()
        self.clashes = {name: target for name, target in new.items() if target in taken}
        mapped = self.known | {name: target for name, target in new.items() if target not in taken}
        members = read_members(self.connection, self.event.extensions)
        self.names = make_map(mapped, self.event.extensions, members)
        self._tables = None

    def make_schema(self, schema: str) -> None:
        """Make the target schema of a source's schema."""
        target = self.names.schemas[schema]
        self.connection.execute(SQL("create schema {}").format(Identifier(target)))
        add_target_schema(self.connection, self.source_id, schema, target)
        self.known[schema] = target
        self._tables = None

    def environment(self) -> Environment:
        """Return what the command ran under on the source."""
        return make_environment(self.connection, self.search_path, self.event.settings)

    def run_sql(
        self, sql: str, tree: Tree | None = None, environment: Environment | None = None
    ) -> None:
        """Run a statement; its tree, if given, is looked at first.

        Without another environment it is one of pgrepl's own, with the source's search path.
        """
        with in_force(self.connection, environment or Environment(self.search_path)):
            if tree is not None:
                self._check_relations(tree)
            self.connection.execute(sql.encode())

    def _check_relations(self, tree: Tree) -> None:
        """Refuse tables and sequences elsewhere, named or found there by the search path."""
        relations = {
            (part.relname, part.schemaname)
            for part in walk(tree)
            if part.DESCRIPTOR.name == "RangeVar"
        } | set(used_sequences(tree))
        bare = sorted(name for name, schema in relations if not schema)
        found = resolve_schemas(self.connection, bare) if bare else {}
        own = set(self.names.schemas.values())
        for name, schema in relations | set(found.items()):
            if schema and schema not in own:
                raise RefusedError(f'"{name}" is in schema "{schema}", which is not the source\'s')

    def watch(self, run: Callable[[], None]) -> None:
        """Run something and write down what it did to schemas and tables."""
        parked = self.release_interrupted()
        # Known before it runs, nobody queues up behind the locks that it waits for.
        touched = {table.key for table in self.event.tables}
        check_parked(parked, {key for key in touched if parked.get(key)})
        definitions = self._definitions(parked)
        old = {target: schema for schema, target in self.known.items()}
        new = {target: schema for schema, target in self.names.schemas.items()}
        # A schema that is there and not noted yet becomes the source's by this.
        schemas_before = {oid: name for oid, name in self._read().schemas.items() if name in old}
        before = self._read().relations
        run()
        reach("ddl.statement_run")
        now = self._definitions(parked)
        check_parked(parked, {key for key in parked if definitions[key] != now[key]})
        self._tables = None
        schemas_after, after = self._read().schemas, self._read().relations
        record_schemas(self.connection, self.source_id, schemas_before, schemas_after, new)
        if schemas_before != schemas_after:
            self.known = read_target_schemas(self.connection, self.source_id)
        returned = record_tables(
            self.connection,
            self.captured,
            before=before,
            after=after,
            sources=(old, new),
            selection=self.source.selection,
        )
        for table in returned:
            reason = f"it came back into replication by {self.event.tag}: what it holds is old"
            self.mark(table, reason, is_void=True)
        is_new = after.keys() != before.keys() or self.event.tag not in _MAKING_NOTHING
        if is_new and owns(self.connection, self.known.values(), self.source.owner_role):
            hand_over(self.connection, self.known.values(), self.source.owner_role)
        self.made |= {(now.schema, now.name) for oid, now in after.items() if oid not in before}

    def release_interrupted(self) -> dict[TableName, bool]:
        """Wait for no copy that was broken off, unless other DDL does; return what is parked."""
        parked = self.parkings()
        if not any(parked.values()):
            return parked
        interrupted = read_interrupted(self.connection, self.source_id)
        free = [name for name, group_id in interrupted.items() if group_id is None]
        release_interrupted(self.connection, self.captured.source, free)
        return self.parkings()

    def parkings(self) -> dict[TableName, bool]:
        """Return the source's tables that DDL must leave alone, and whether they are copied."""
        if not self.standing.is_any_parked:
            # What is parked from now on waits for the transactions that went by it.
            return {}
        found = read_parkings(self.connection, self.source_id)
        return {
            name: is_copied
            for name, is_copied in found.items()
            if name not in self.captured.worked_off
        }

    def joining(self) -> Mapping[TableName, int | None]:
        """Return the source's tables that their first copy makes, with their OIDs there.

        One that is copied as a whole is not among them: it is parked.
        """
        if not self.standing.is_any_joining:
            return {}
        awaited = read_awaited(self.connection, self.source_id)
        return {**awaited, **read_joining(self.connection, self.source_id)}

    def await_copies(
        self, tables: Sequence[TableDefinition], names: Collection[TableName]
    ) -> Mapping[TableName, int | None]:
        """Have tables made by their first copy that the target has nothing of; return them.

        ``names``: what one of them may have been called before.
        """
        found = find_unknown(
            self.connection,
            self.source_id,
            [(*table.key, table.oid) for table in tables],
            names,
        )
        reason = f"it came into replication by {self.event.tag}: what it held before is not here"
        brought = {table.key: table.oid for table in tables if table.key in found}
        for name, oid in brought.items():
            await_copy(self.connection, self.source_id, name, oid, reason)
            self.notes.append(f"resync: {reason}")
        return brought

    def known_tables(self) -> set[TableName]:
        """Return the source's tables that are replicated or parked."""
        tables = {row.key for row in read_source_tables(self.connection, self.source_id)}
        return tables | set(self.parkings())

    def _definitions(self, tables: Iterable[TableName]) -> dict[TableName, TableDefinition | None]:
        """Return the structures of tables of the source on the target; None: it has none."""
        places = {(schema, name): (self.known.get(schema, ""), name) for schema, name in tables}
        found = self.definitions(places.values())
        return {key: found.get(place) for key, place in places.items()}

    def definitions(self, tables: Iterable[TableName]) -> dict[TableName, TableDefinition]:
        """Return the structures of tables of the target."""
        return read_definitions(self.connection, tables)

    def relations(self) -> Sequence[TargetRelation]:
        """Return the source's tables on the target."""
        return tuple(self._read().relations.values())

    def _read(self) -> TargetTables:
        if self._tables is None:
            self._tables = read_tables(self.connection, self.names.schemas.values())
        return self._tables

    def find_schema(self, schema: str | None, name: str | None) -> str | None:
        """Return the source's schema in which an object is that the target has.

        Without a schema it is found by the source's search path; without a name it is the schema.
        """
        path = [item for item in ([schema] if schema else self.event.path) if item in self.known]
        if name is None:
            return next(iter(path), None)
        rows = self.connection.execute(
            "select n.nspname::text from pg_catalog.pg_namespace n"
            " where n.nspname = any (%(places)s) and (exists (select from pg_catalog.pg_class"
            " where relnamespace = n.oid and relname = %(name)s)"
            " or exists (select from pg_catalog.pg_type"
            " where typnamespace = n.oid and typname = %(name)s)"
            " or exists (select from pg_catalog.pg_proc"
            " where pronamespace = n.oid and proname = %(name)s))",
            {"places": [self.known[item] for item in path], "name": name},
        )
        there = {place for (place,) in rows}
        return next((item for item in path if self.known[item] in there), None)

    def outside_dependents(self) -> frozenset[str]:
        """Return what is not the source's and depends on what is."""
        return read_outside_dependents(self.connection, self.names.schemas.values())

    def has_rows(self, table: TableName) -> bool:
        """Whether a table of the target holds anything."""
        ((has_rows,),) = self.connection.execute(
            SQL("select exists (select from {})").format(Identifier(*table))
        ).fetchall()
        return bool(has_rows)

    def mark(
        self, table: TableName, reason: str, *, is_due: bool = True, is_void: bool = False
    ) -> None:
        """Mark a table of the target for a resync, with its partitions and children.

        It is done by itself when it is due; what is not due could not be copied now. Changes of
        what is void are passed over until then.
        """
        self.notes.append(f"resync: {reason}")
        schemas = {target: schema for schema, target in self.names.schemas.items()}
        for relation in self._family(table):
            key = (schemas[relation.schema], relation.name)
            mark_changed(self.connection, self.source_id, key, reason)
            if is_due:
                mark_due(self.connection, self.source_id, key, reason)
            else:
                withdraw_due(self.connection, self.source_id, key)
            if is_void:
                mark_void(self.connection, self.source_id, key)

    def empty(self, table: TableName) -> None:
        """Remove the rows of a table of the target, with those of its partitions and children."""
        for relation in self._family(table):
            empty(self.connection, (relation.schema, relation.name))

    def _family(self, table: TableName) -> Sequence[TargetRelation]:
        # A partitioned table has no rows of its own.
        family = read_family(self.connection, table)
        return [item for item in self.relations() if item.has_rows and item.oid in family]

    def source_oids(self) -> Mapping[TableName, int]:
        """Return which relations of the source the replicated tables are, as far as known."""
        return read_source_oids(self.connection, self.source_id)

    def forget(self, table: TableName) -> None:
        """Forget what was noted of a name on the source that is not a table's."""
        remove_table(self.connection, self.source_id, table, self.captured.commit_lsn)

    def forget_unknown(self, table: TableName) -> None:
        """Forget what was noted of a table of the source that is dropped, and was never here."""
        rows = self.captured.read_rows()
        later = [decode_event(row) for row in rows if int(row["id"] or 0) > self.event.log_id]
        forget_unknown(
            *(self.connection, self.source_id, table, self.captured.commit_lsn),
            is_made_again=any(made.key == table for event in later for made in event.tables),
        )

    def note_oid(self, table: TableName, oid: int) -> None:
        """Write down which relation a table of the source is."""
        set_source_oid(self.connection, self.source_id, table, oid)

    def is_replicated(self, table: TableName) -> bool:
        """Whether changes of a table of the source are applied."""
        return is_replicated(self.connection, self.source_id, table)

    def is_in_copy(self, tables: Iterable[TableName]) -> bool:
        """Whether the copies of all these tables of the source were made after the command."""
        return are_copied_after(
            self.connection,
            self.source_id,
            list(tables),
            xid=self.event.xid,
            commit_lsn=self.captured.commit_lsn,
        )
