"""One run of a basebackup, from the first look to the origin.

The order is what makes it exact and repeatable. The source is recorded before its slot is made, so
no slot is ever orphaned. The schema is made in one transaction with the list of what follows. Each
part, table and step is recorded with what it did. The origin and the state "streaming" come last.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial

import psycopg
from psycopg.sql import Literal

from pgrepl.basebackup import copy_state, post_data
from pgrepl.basebackup.cleanup import discard
from pgrepl.basebackup.preflight import TargetSide, check_target, plan_schema, prepare
from pgrepl.basebackup.report import CopyOptions, CopyReport, Outcome, Watcher
from pgrepl.basebackup.rows.copy import RowCopy
from pgrepl.basebackup.rows.workers import CopyWorkers, start_copy_workers
from pgrepl.basebackup.same_source import check_begun, check_options, check_same, check_unchanged
from pgrepl.basebackup.schema.plan import ROW_PHASES
from pgrepl.basebackup.snapshot import (
    Keeper,
    keep_new_slot,
    keep_new_snapshot,
    slot_exists,
)
from pgrepl.catalog.ownership import check_owner, ensure_owner, hand_over, owns
from pgrepl.catalog.slots import drop_slot
from pgrepl.catalog.tables import SourceTable, read_tables
from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import PgreplError, SourceError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import copy_lock, take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.programs import find_client
from pgrepl.postgres.server import Identity, identify
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.make import make_publications
from pgrepl.store.migrations import migrate
from pgrepl.store.removal import check_removable
from pgrepl.store.rules import record_rules
from pgrepl.store.sources import (
    SourceRow,
    add_source,
    advance_origin,
    create_origin,
    find_source,
    read_options,
    read_target_schemas,
    set_copying,
    write_options,
)
from pgrepl.store.tables.copy_work import leave_out_steps, read_progress
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import read_source_tables
from pgrepl.store.tables.unsent import Unsent, record_unsent

__all__ = ["copy_source"]

logger = logging.getLogger(__name__)

_STAGE = "basebackup"


def copy_source(
    config: Config, source: SourceConfig, options: CopyOptions, watcher: Watcher
) -> CopyReport:
    """Copy a source, or go on with a copy that was interrupted.

    Raises
    ------
    PgreplError
        whatever is wrong; the same call repeated goes on from there.

    """
    with ExitStack() as stack:
        target = stack.enter_context(connect(config.target.endpoint, _STAGE))
        migrate(target, config.target.endpoint)
        take_lock(target, copy_lock(source.name))
        source_session = stack.enter_context(connect(source.endpoint, _STAGE))
        # What concerns the source is translated nearer to it.
        with translated(config.target.endpoint, "cannot go on"):
            return _Run(config, source, options, watcher, target, source_session).run()


@dataclass(slots=True)
class _Run:
    config: Config
    source: SourceConfig
    options: CopyOptions
    watcher: Watcher
    #: Sessions that last for the whole run; the first holds the lock.
    target: Connection
    source_session: Connection
    #: Changes that pgoutput cannot send, from before the copy.
    unsent: Mapping[tuple[str, str], Unsent] = field(default_factory=dict)

    def run(self) -> CopyReport:
        begin = time.monotonic()
        identity = identify(self.source.endpoint, _STAGE)
        row = find_source(self.target, self.source.name)
        if row is not None and self.options.is_restart:
            discard(self.target, self.config.target.endpoint, self.source_session, self.source, row)
            row = None
        if row is not None:
            check_same(self.source, row, identity)
            self._check_options(row)
            if row.state == "streaming":
                return self._report(row.source_id, "already copied", begin)
        if row is None or not self._has_begun(row):
            source_id = self._record(row, identity)
            write_options(self.target, source_id, self.options.shape())
            record_rules(self.target, source_id, self.source.rules)
            outcome = self._begin_anew(source_id)
        else:
            source_id, outcome = row.source_id, "resumed"
            check_begun(self.target, source_id, self.source)
            self._resume(row)
        return self._report(source_id, outcome, begin)

    # --- beginnings ---------------------------------------------------------------------------

    def _record(self, row: SourceRow | None, identity: Identity) -> int:
        """Write down that something of the source will exist, and remove what half exists."""
        if row is not None:
            check_removable(self.target, self.config.target.endpoint, row.source_id)
            copy_state.forget(self.target, row.source_id)
            drop_slot(self.source_session, self.source.endpoint, row.slot)
            return row.source_id
        if self._slot_exists(self.source.slot):
            raise SourceError(
                f'{self.source.endpoint}: slot "{self.source.slot}" exists, but this target'
                " did not make it",
                hint="If no other target uses it, run there: SELECT pg_drop_replication_slot("
                f"{Literal(self.source.slot).as_string()}). Else set another slot name.",
            )
        return add_source(
            self.target,
            name=self.source.name,
            slot=self.source.slot,
            dbname=identity.dbname,
            system_identifier=identity.system_identifier,
            timeline=identity.timeline,
            plugin=self.source.plugin,
        )

    def _begin_anew(self, source_id: int) -> Outcome:
        self._look_first()
        reach("basebackup.source_recorded")
        if self.options.is_schema_only:
            with closing(keep_new_snapshot(self.source.endpoint).connection) as connection:
                self._make_schema(source_id, connection, None)
            self._run_steps(source_id, is_one_moment=True, jobs=self.options.jobs or 1)
            endpoint = self.config.target.endpoint
            copy_state.name_tables(self.target, endpoint, source_id, self.source.rules)
            return "schema made"
        workers = start_copy_workers(self.config.spark, self.options.jobs)
        try:
            keeper = self._make_slot(source_id)
            with closing(keeper.connection):
                tables = self._make_schema_or_drop_slot(source_id, keeper)
                reach("basebackup.schema_made")
                self._copy(source_id, keeper, tables, workers)
            self._finish(source_id, self.source.slot, workers.jobs)
        finally:
            workers.stop()
        return "copied"

    def _look_first(self) -> None:
        """Refuse what can be refused before there is a slot.

        A table that a migration has locked is among it: the slot would wait for the migration, and
        nobody knows for how long.
        """
        keeper = keep_new_snapshot(self.source.endpoint)
        with closing(keeper.connection):
            find_client("pg_dump", keeper.connection.info.server_version // 10000)
            preview = prepare(keeper.connection, self.source, self.options)
            check_target(self.target, self.config.target.endpoint, preview)
            check_owner(self.target, self.config.target.endpoint, self.source.owner_role)
            keeper.lock(preview.objects.tables, self.options.lock_timeout_s)

    def _make_slot(self, source_id: int) -> Keeper:
        self.watcher.begin("slot")
        if self.source.plugin == "pgoutput":
            # A publication that is younger than the slot would stop it.
            self.unsent = make_publications(self.source_session, self.source)
            reach("basebackup.published")
        keeper = keep_new_slot(self.source.endpoint, self.source.slot, self.source.plugin)
        reach("basebackup.slot_created")
        with translated(self.config.target.endpoint, "cannot record the slot"):
            set_copying(self.target, source_id, keeper.start.lsn)
        reach("basebackup.slot_recorded")
        logger.info("slot made", extra={"slot": self.source.slot, "lsn": str(keeper.start.lsn)})
        return keeper

    def _slot_exists(self, slot: str) -> bool:
        return slot_exists(self.source_session, self.source.endpoint, slot, self.source.plugin)

    def _make_schema_or_drop_slot(self, source_id: int, keeper: Keeper) -> Sequence[SourceTable]:
        try:
            return self._make_schema(source_id, keeper.connection, keeper)
        except BaseException:
            # Nothing was copied: a slot that stays would only hold WAL back.
            keeper.connection.close()
            with suppress(PgreplError, psycopg.Error):
                drop_slot(self.source_session, self.source.endpoint, self.source.slot)
                copy_state.forget(self.target, source_id)
            raise

    def _make_schema(
        self, source_id: int, connection: Connection, keeper: Keeper | None
    ) -> Sequence[SourceTable]:
        self.watcher.begin("schema")
        endpoint = self.config.target.endpoint
        preparation = prepare(connection, self.source, self.options)
        extensions = check_target(self.target, endpoint, preparation)
        tables = preparation.objects.tables
        if keeper is not None:
            keeper.lock(tables, self.options.lock_timeout_s)
        plan = plan_schema(
            self.source,
            connection,
            preparation,
            self.options,
            snapshot=keeper.snapshot if keeper is not None else None,
            target=TargetSide(endpoint, self.target, extensions),
        )
        owner = ensure_owner(self.target, endpoint, self.source.owner_role)
        if owner is None:
            logger.warning(
                "no role of its own owns the schemas of the source; pgrepl doctor says how to make"
                " one",
                extra={"role": self.source.owner_role},
            )
        # What was counted goes with the tables: who goes on with them does not count again.
        with translated(endpoint, "cannot make the schema"), self.target.transaction():
            copy_state.make_schema(
                self.target, source_id, preparation.schemas, plan, tables, owner=owner
            )
            reach("basebackup.before_schema_commit")
            record_unsent(self.target, source_id, self.unsent)
        skipped = {"left_out": len(plan.left_out), "skipped": len(plan.skipped)}
        logger.info("schema made", extra={"tables": len(tables), **skipped})
        return tables

    def _resume(self, row: SourceRow) -> None:
        if not self._slot_exists(row.slot):
            raise SourceError(
                f'{self.source.endpoint}: slot "{row.slot}" does not exist any more, so the changes'
                " since the copy began are lost",
                hint="Start over with --restart.",
            )
        known = {table.key: table for table in read_source_tables(self.target, row.source_id)}
        unfinished = {key for key, table in known.items() if table.state != "ready"}
        logger.info(
            "going on with an interrupted copy",
            extra={"tables_done": len(known) - len(unfinished), "tables_left": len(unfinished)},
        )
        if not unfinished:
            self._finish(row.source_id, row.slot, self.options.jobs or self.config.replay.shards)
            return
        workers = start_copy_workers(self.config.spark, self.options.jobs)
        try:
            keeper = keep_new_snapshot(self.source.endpoint)
            with closing(keeper.connection):
                tables = self._tables(keeper.connection, unfinished)
                current = {table.key: table.definition for table in tables}
                expected = {key: known[key].definition for key in unfinished}
                check_unchanged(self.source.endpoint, expected, current)
                keeper.lock(tables, self.options.lock_timeout_s)
                self._copy(row.source_id, keeper, tables, workers)
            self._finish(row.source_id, row.slot, workers.jobs)
        finally:
            workers.stop()

    # --- the way to the end -------------------------------------------------------------------

    def _copy(
        self,
        source_id: int,
        keeper: Keeper,
        tables: Sequence[SourceTable],
        workers: CopyWorkers,
    ) -> None:
        RowCopy(
            source=self.source.endpoint,
            endpoint=self.config.target.endpoint,
            target=self.target,
            source_id=source_id,
            target_schemas=self._schemas(source_id),
            watcher=self.watcher,
        ).run(keeper, tables, workers)

    def _finish(self, source_id: int, slot: str, jobs: int) -> None:
        endpoint = self.config.target.endpoint
        tables = read_source_tables(self.target, source_id)
        unfinished = [table for table in tables if table.state != "ready"]
        if unfinished:
            raise PgreplError(f"{len(unfinished)} tables were not copied; this is a bug in pgrepl")
        reach("basebackup.data_copied")
        # Tables copied at different moments meet only after replay: a foreign key between them
        # may not hold before.
        is_one_moment = len({(table.start_lsn, table.start_snapshot) for table in tables}) <= 1
        self._run_steps(source_id, is_one_moment=is_one_moment, jobs=jobs)
        if not is_one_moment:
            leave_out_steps(self.target, source_id)
        schemas = self._schemas(source_id)
        self.watcher.begin("sequences")
        post_data.copy_sequences(
            self.source_session, self.source.endpoint, self.target, endpoint, schemas
        )
        self.watcher.begin("statistics")
        places = read_places(self.target, source_id)
        post_data.analyze(self.target, endpoint, [table.key for table in tables], places, jobs)
        reach("basebackup.before_origin")
        with translated(endpoint, "cannot set the origin"):
            self._set_origin(source_id, slot)

    def _run_steps(self, source_id: int, *, is_one_moment: bool, jobs: int) -> None:
        endpoint = self.config.target.endpoint
        self.watcher.begin("keys")
        run = partial(post_data.run_steps, self.target, endpoint, source_id, jobs=jobs)
        run(phases=("key", "attach", "property"))
        self.watcher.begin("foreign keys")
        run(phases=("foreign_key",))
        if is_one_moment:
            run(phases=ROW_PHASES)
        self.watcher.begin("views")
        run(phases=("view",))
        schemas = self._schemas(source_id).values()
        with translated(endpoint, "cannot give the schemas to their role"):
            if owns(self.target, schemas, self.source.owner_role):
                with self.target.transaction():
                    hand_over(self.target, schemas, self.source.owner_role)

    def _set_origin(self, source_id: int, slot: str) -> None:
        """Let the receiver begin where the slot began; only then is the source streaming."""
        create_origin(self.target, slot)
        reach("basebackup.origin_created")
        advance_origin(self.target, source_id)
        reach("basebackup.origin_set")
        endpoint = self.config.target.endpoint
        copy_state.end_copying(self.target, endpoint, source_id, self.source.rules)

    # --- questions ----------------------------------------------------------------------------

    def _has_begun(self, row: SourceRow) -> bool:
        """Whether there is a copy, whole or in part, that rows of the source belong into."""
        return row.state != "creating" and bool(self._schemas(row.source_id))

    def _check_options(self, row: SourceRow) -> None:
        if self._has_begun(row):
            began_with = read_options(self.target, row.source_id)
            is_done = row.state == "streaming"
            check_options(row.name, self.options, began_with, is_done=is_done)

    def _tables(
        self, connection: Connection, keys: Collection[tuple[str, str]]
    ) -> Sequence[SourceTable]:
        with translated(self.source.endpoint, "cannot read the catalogue"):
            tables = read_tables(connection, self.source.rules)
            return [table for table in tables if table.key in keys]

    def _schemas(self, source_id: int) -> Mapping[str, str]:
        return read_target_schemas(self.target, source_id)

    def _report(self, source_id: int, outcome: Outcome, begin: float) -> CopyReport:
        row = find_source(self.target, self.source.name)
        return CopyReport(
            source=self.source.name,
            outcome=outcome,
            consistent_point=row.consistent_point if row is not None else None,
            target_schemas=sorted(self._schemas(source_id).values()),
            tables=read_progress(self.target, source_id),
            left_out=copy_state.read_left_out(self.target, source_id),
            seconds=time.monotonic() - begin,
        )
