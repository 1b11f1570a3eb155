"""Tables that the target never had: made, filled out of sight, and shown when they are whole.

They are made under names that nobody knows and get their own in the transaction that makes their
keys. What they need of the source's schema is made with them, and nothing that is there already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from psycopg.sql import SQL, Composed, Identifier

from pgrepl.basebackup.copy_state import SESSION
from pgrepl.basebackup.post_data import copy_sequences
from pgrepl.basebackup.preflight import (
    Preparation,
    TargetSide,
    check_extensions,
    plan_schema,
    prepare,
)
from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.schema.known import Known, read_known
from pgrepl.basebackup.schema.plan import SchemaPlan
from pgrepl.basebackup.snapshot import Keeper, SnapshotStart
from pgrepl.catalog.names import existing_schemas
from pgrepl.catalog.ownership import ensure_owner, hand_over
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import TableSelection, exact_pattern, shown_name
from pgrepl.errors import SourceError, TargetError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import find_holder, receive_lock
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.make import make_publications
from pgrepl.resync.joining.late_keys import LOCK_TIMEOUT, late_key
from pgrepl.resync.sides import Sides
from pgrepl.store.resync.awaited import clear_due_of
from pgrepl.store.resync.joins import hidden_name
from pgrepl.store.skipped_code import record_skipped
from pgrepl.store.sources import (
    add_target_schema,
    read_options,
    read_patterns,
    read_target_schemas,
)
from pgrepl.store.tables.copy_work import (
    LeftOutRow,
    Phase,
    add_left_out,
    read_left_out,
)
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import (
    add_joining_table,
    begin_copies,
    set_ready,
)
from pgrepl.store.tables.target_tables import find_target_table
from pgrepl.syntax.parse import parse_one
from pgrepl.syntax.remap import rename_tables
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Join", "check_received", "publish"]

_KEY_PHASES: tuple[Phase, ...] = ("key", "attach", "property")
_LATE_PHASES: tuple[Phase, ...] = ("foreign_key", "validate", "valid_foreign_key")

#: A receiver that has just started tells its patterns a moment after it took its lock.
_BEGINS_S = 3.0
_LOOK_S = 0.05


def check_received(sides: Sides, tables: Sequence[SourceTable]) -> None:
    """Make sure that no receiver is at work that passes over the changes of these tables.

    Raises
    ------
    SourceError
        naming a table that its patterns do not take in.

    """
    deadline = time.monotonic() + _BEGINS_S
    while (table := _passed_over(sides, tables)) is not None:
        if time.monotonic() > deadline:
            raise SourceError(
                f'the receiver of source "{sides.source.name}" runs with patterns that do not take'
                f" in {table}, so that its changes would be lost",
                hint="Restart pgrepl receive with this configuration, then run the same command.",
            )
        time.sleep(_LOOK_S)


def _passed_over(sides: Sides, tables: Sequence[SourceTable]) -> SourceTable | None:
    """Return a table that the patterns of the receiver which runs do not take in."""
    with translated(sides.endpoint, "cannot look for the receiver"):
        patterns = read_patterns(sides.target, sides.source_id)
        is_running = find_holder(sides.target, receive_lock(sides.source.name)) is not None
    if not is_running:
        # The next one begins with today's patterns, where this one ended.
        return None
    taken = (
        TableSelection.of([])
        if patterns is None
        else TableSelection.of(patterns["tables"], patterns["exclude"])
    )
    return next(
        (table for table in tables if not taken.matches(table.root_schema, table.root_name)), None
    )


def publish(sides: Sides, tables: Sequence[SourceTable]) -> None:
    """Have the changes of new tables sent, before any of them is to be relied on."""
    if tables and sides.source.plugin == "pgoutput":
        make_publications(sides.source_session, sides.source)
        reach("resync.published")


class Join:
    """New tables of one run."""

    def __init__(
        self,
        sides: Sides,
        keeper: Keeper,
        tables: Sequence[SourceTable],
        remade: Sequence[SourceTable] = (),
        *,
        filled_at: Mapping[tuple[str, str], SnapshotStart] | None = None,
        has_keys: bool = False,
    ) -> None:
        """Plan how they are made, as the snapshot sees them; nothing is made yet.

        Of tables that are there and get another structure, what they need is made as well.
        ``filled_at``: where earlier runs began to fill them, by their roots; those made them.
        ``has_keys``: they have their keys from the first, and not only with their names.
        """
        self._sides = sides
        self._keeper = keeper
        self._remade = remade
        self._filled_at = filled_at
        self._has_keys = has_keys
        self._preparation, self._known, self._plan = self._make_plan([*tables, *remade])
        #: What belongs to columns that are there only later.
        self.late: list[str] = []
        #: All that is made, partitioned tables among them.
        self.made = [
            table
            for table in self._preparation.objects.tables
            if not self._known.has_table(table.key)
        ]
        taken = [table for table in tables if self._known.has_table(table.key)]
        if taken:
            raise TargetError(
                f"{sides.endpoint}: the target has a table in the place of {taken[0]} that pgrepl"
                " did not make",
                hint="Rename or drop it.",
            )
        unasked = {t.key for t in self.made if not t.is_partitioned} - {t.key for t in tables}
        if unasked:
            names = ", ".join(shown_name(*key) for key in sorted(unasked))
            raise TargetError(
                f"{sides.endpoint}: tables that new ones are tied to are not there either: {names}",
                hint="Name them too, or use --all.",
            )

    def place(self, table: SourceTable) -> tuple[str, str]:
        """Return where the rows of a table go."""
        return self._preparation.schemas[table.schema], hidden_name(table.oid)

    def _make_plan(self, tables: Sequence[SourceTable]) -> tuple[Preparation, Known, SchemaPlan]:
        sides, keeper = self._sides, self._keeper
        with translated(sides.source.endpoint, "cannot read the foreign keys"):
            linked: Sequence[tuple[str, str]] = keeper.connection.execute(
                load_query("pgrepl.resync", "linked_tables"),
                {"oids": [table.oid for table in tables]},
            ).fetchall()
        with translated(sides.endpoint, "cannot read the state of the tables"):
            began_with = read_options(sides.target, sides.source_id) or {}
            there = [key for key in linked if self._is_there(key)]
        roots = {(table.root_schema, table.root_name) for table in tables} | set(there)
        options = CopyOptions(
            tables=TableSelection.of(exact_pattern(*root) for root in sorted(roots)),
            with_all_indexes=began_with.get("indexes") == "all",
            lock_timeout_s=sides.options.wait_s,
        )
        preparation = prepare(keeper.connection, sides.source, options)
        with translated(sides.endpoint, "cannot read the catalogue"):
            recorded = read_target_schemas(sides.target, sides.source_id)
            preparation = Preparation(
                preparation.objects, {**preparation.schemas, **_of(recorded, preparation)}
            )
            self._check_schemas(preparation.schemas, recorded)
            if self._filled_at is None:
                self._drop_earlier(preparation)
            named = read_places(sides.target, sides.source_id).by_place()
            renamed = {place: table for place, (_, table) in named.items()}
            known = read_known(sides.target, dict(preparation.schemas), renamed)
        extensions = check_extensions(sides.target, sides.endpoint, preparation)
        plan = plan_schema(
            sides.source,
            keeper.connection,
            preparation,
            options,
            snapshot=keeper.snapshot,
            target=TargetSide(sides.endpoint, sides.target, extensions),
            known=known,
        )
        return preparation, known, plan

    def _is_there(self, key: tuple[str, str]) -> bool:
        """Whether the target has a table under its name; what is not, is tied when it joins."""
        found = find_target_table(self._sides.target, self._sides.source_id, key)
        return found is not None and found.oid is not None and not found.is_joining

    def _drop_earlier(self, preparation: Preparation) -> None:
        """Drop what a run that was killed has made; what belongs to its tables goes with them."""
        for table in preparation.objects.tables:
            place = Identifier(preparation.schemas[table.schema], hidden_name(table.oid))
            self._sides.target.execute(SQL("drop table if exists {} cascade").format(place))

    def _check_schemas(self, schemas: Mapping[str, str], recorded: Mapping[str, str]) -> None:
        """Refuse schemas that exist and are none of ours."""
        new = [target for schema, target in schemas.items() if schema not in recorded]
        taken = existing_schemas(self._sides.target, new)
        if taken:
            raise TargetError(
                f"{self._sides.endpoint}: schema {taken[0]} exists, but pgrepl did not make it",
                hint='Rename or drop it, or set another schema = "..." in pgrepl.toml.',
            )

    def make(self) -> None:
        """Make the tables under hidden names, inside the caller's transaction."""
        with self._sides.source_names(self._texts()):
            self._make()

    def _texts(self) -> Sequence[str]:
        """Return what runs, which names all tables that it is of."""
        steps = [step.sql for step in self._plan.steps]
        return [*self._plan.before, *steps, *self._plan.attach, *(t.name for t in self.made)]

    def _make(self) -> None:
        sides, target = self._sides, self._sides.target
        owner = ensure_owner(target, sides.endpoint, sides.source.owner_role)
        recorded = read_target_schemas(target, sides.source_id)
        for statement in SESSION:
            target.execute(statement)
        for schema, target_schema in self._preparation.schemas.items():
            if schema not in recorded:
                target.execute(SQL("create schema {}").format(Identifier(target_schema)))
                add_target_schema(target, sides.source_id, schema, target_schema)
        for sql in self._plan.before:
            if self._remade and _owns_sequence(sql):
                self.late.append(sql)
            else:
                target.execute(sql.encode())
        if self._has_keys:
            self._make_keys()
        for table in self.made:
            schema, name = self.place(table)
            target.execute(_rename(schema, table.name, name))
        if owner is not None:
            hand_over(target, self._preparation.schemas.values(), owner)
        self._record_skipped()

    def _make_keys(self) -> None:
        for step in (s for phase in _KEY_PHASES for s in self._plan.steps if s.phase == phase):
            self._sides.target.execute(step.sql.encode())

    def _record_skipped(self) -> None:
        sides = self._sides
        made = {table.key for table in (*self.made, *self._remade)}
        record_skipped(
            sides.target,
            sides.source_id,
            [item for item in self._plan.skipped if (item.schema_name, item.table_name) in made],
        )
        noted = {(row.kind, row.name) for row in read_left_out(sides.target, sides.source_id)}
        add_left_out(
            sides.target,
            sides.source_id,
            [
                LeftOutRow(item.kind, item.name, item.reason)
                for item in self._plan.left_out
                if (item.kind, item.name) not in noted
            ],
        )

    def show(self) -> None:
        """Give the tables their names and keys, inside the caller's transaction."""
        for statement in (*SESSION, LOCK_TIMEOUT):
            self._sides.target.execute(statement)
        with self._sides.source_names(self._texts()):
            self._show()
        tables = read_places(self._sides.target, self._sides.source_id).in_texts
        add_left_out(
            self._sides.target,
            self._sides.source_id,
            [
                late_key(
                    *(step.schema, step.table),
                    *("for a table that joined", rename_tables(step.sql, tables)),
                )
                for step in self._plan.steps
                if step.phase in _LATE_PHASES
            ],
        )

    def _show(self) -> None:
        sides, target = self._sides, self._sides.target
        for table in self.made:
            schema, name = self.place(table)
            target.execute(_rename(schema, name, table.name))
        if not self._has_keys:
            self._make_keys()
        for sql in self._plan.attach:
            target.execute(sql.encode())
        owner = ensure_owner(target, sides.endpoint, sides.source.owner_role)
        if owner is not None:
            hand_over(target, self._preparation.schemas.values(), owner)
        for table in self.made:
            if table.is_partitioned:
                root = table.root_schema, table.root_name
                start = (self._filled_at or {}).get(root, self._keeper.start)
                # It has no rows of its own, but TRUNCATE of it is in the stream.
                add_joining_table(target, sides.source_id, table.key, table.definition, table.oid)
                begin_copies(
                    *(target, sides.source_id, [table.key]), lsn=start.lsn, snapshot=start.snapshot
                )
                set_ready(target, sides.source_id, table.key)
                clear_due_of(target, sides.source_id, table.key)

    def set_sequences(self) -> None:
        """Set sequences, when what waited is applied. Killed here, replay brings them up."""
        sides = self._sides
        copy_sequences(
            sides.source_session,
            sides.source.endpoint,
            sides.target,
            sides.endpoint,
            self._preparation.schemas,
        )


def _owns_sequence(sql: str) -> bool:
    """Whether a statement gives a sequence to a column."""
    kind, statement = statement_of(parse_one(sql))
    return kind == "AlterSeqStmt" and any(
        option.def_elem.defname == "owned_by" for option in statement.options
    )


def _of(recorded: Mapping[str, str], preparation: Preparation) -> dict[str, str]:
    return {s: recorded[s] for s in preparation.schemas if s in recorded}


def _rename(schema: str, was: str, name: str) -> Composed:
    return SQL("alter table {} rename to {}").format(Identifier(schema, was), Identifier(name))
