"""Copy tables again while streaming goes on.

A table that is parked is left alone by replay, which keeps its changes in order. So the tables are
parked, replay's transactions that began before are waited for, and only then a snapshot is taken
and the tables are emptied and copied under it. What waits then is either visible in the snapshot,
and in the copy, or not: ``pgrepl parked retry`` tells the two apart by the snapshot recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier, Literal

from pgrepl.basebackup import post_data
from pgrepl.basebackup.report import Watcher
from pgrepl.basebackup.rows.copy import RowCopy
from pgrepl.basebackup.rows.workers import CopyWorkers, start_copy_workers
from pgrepl.basebackup.same_source import check_same
from pgrepl.basebackup.snapshot import Keeper, keep_new_snapshot
from pgrepl.catalog.tables import Column, SourceTable, is_copy_of, read_columns, read_tables
from pgrepl.catalog.unreadable import Unreadable, read_unreadable_tables, unreadable_error
from pgrepl.catalog.writers import read_writers
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import TableSelection
from pgrepl.errors import SourceUnavailable, TargetError, TargetUnavailable, UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import copy_lock, take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.server import identify
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.tables import read_publications
from pgrepl.store.copy_work import TableProgress, read_progress, remove_parts
from pgrepl.store.migrations import migrate
from pgrepl.store.parked import find_followers, park_for_resync
from pgrepl.store.sources import SourceRow, find_source, read_target_schemas
from pgrepl.store.tables import (
    Unsent,
    begin_resync,
    find_copy,
    read_marked_pending,
    read_source_oids,
    record_unsent,
    remove_table_row,
)
from pgrepl.terminal import command

__all__ = ["ResyncOptions", "ResyncReport", "resync_tables"]

_STAGE = "basebackup"
_POLL_S = 0.1
_AGAIN = "Run the same command again when that transaction is over, or raise --wait."


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncOptions:
    """The options of one run."""

    tables: TableSelection
    jobs: int | None = None
    #: How long to wait for a lock, for replay, and for writers on the source.
    wait_s: int = 300
    #: How long readers of the target may queue up behind us, when that is to be less.
    lock_s: int | None = None
    #: Whether processes of our own copy, whatever the master is.
    is_local: bool = False
    #: Sleeps, or raises to break it all off.
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport:
    """What was copied."""

    source: str
    tables: Sequence[TableProgress]
    #: Tables that nobody has any more, the source or the target; they wait no longer.
    gone: Sequence[tuple[str, str]]
    #: Tables that the role may not read; they stay as they are.
    unreadable: Sequence[Unreadable] = ()
    seconds: float


def resync_tables(
    config: Config,
    source: SourceConfig,
    options: ResyncOptions,
    watcher: Watcher,
    go_on: Callable[[Sequence[TableProgress]], None] = lambda _: None,
) -> ResyncReport:
    """Copy tables again. Interrupted, they stay parked, and the same call starts them over.

    ``go_on`` applies what waited for the tables, while nobody else can begin to copy them.

    Raises
    ------
    PgreplError
        whatever is wrong.

    """
    begin = time.monotonic()
    endpoint = config.target.endpoint
    with ExitStack() as stack:
        target = stack.enter_context(connect(endpoint, _STAGE))
        migrate(target, endpoint)
        take_lock(target, copy_lock(source.name))
        with translated(endpoint, "cannot go on"):
            row = _checked(source, find_source(target, source.name))
            check_same(source, row, identify(source.endpoint, _STAGE))
            origin = stack.enter_context(connect(source.endpoint, _STAGE))
            run = _Resync(config, source, options, target, row)
            tables = run.choose(origin)
            gone = run.forget_gone(origin)
            if run.unreadable and not tables and not gone:
                raise unreadable_error(source.endpoint, run.unreadable)
            if not tables and not gone:
                raise UsageError(
                    f'no replicated table of source "{source.name}" matches the names given',
                    hint="Write schema.table as on the source; * stands for any characters.",
                )
            if not tables:
                return ResyncReport(
                    source=source.name,
                    tables=(),
                    gone=gone,
                    unreadable=run.unreadable,
                    seconds=time.monotonic() - begin,
                )
            workers = start_copy_workers(config.spark, options.jobs, is_local=options.is_local)
            stack.callback(workers.stop)
            run.park(origin, tables)
            reach("resync.parked")
            run.await_replay()
            run.await_writers(origin)
            keeper = keep_new_snapshot(source.endpoint)
            with closing(keeper.connection):
                keeper.lock(tables, options.wait_s)
                # A migration may have been quicker than the lock.
                run.check_columns(origin, tables)
                run.copy(keeper, tables, workers, watcher)
            reach("resync.copied")
            watcher.begin("statistics")
            keys = {table.key for table in tables}
            post_data.analyze(target, endpoint, keys, run.schemas, workers.jobs)
            copied = [
                table
                for table in read_progress(target, row.source_id)
                if (table.schema_name, table.table_name) in keys
            ]
            remove_parts(target, row.source_id, keys)
        go_on(copied)
    return ResyncReport(
        source=source.name,
        tables=copied,
        gone=gone,
        unreadable=run.unreadable,
        seconds=time.monotonic() - begin,
    )


def _checked(source: SourceConfig, row: SourceRow | None) -> SourceRow:
    if row is None or row.state != "streaming":
        state_of = "was never copied" if row is None else f'is in state "{row.state}"'
        raise TargetError(
            f'source "{source.name}" {state_of}, so no table of it can be copied again',
            hint=f"Run: {command('basebackup', source.name)}",
        )
    return row


class _Resync:
    def __init__(
        self,
        config: Config,
        source: SourceConfig,
        options: ResyncOptions,
        target: Connection,
        row: SourceRow,
    ) -> None:
        self._endpoint = config.target.endpoint
        self._source = source
        self._options = options
        self._target = target
        self._row = row
        self.schemas = read_target_schemas(target, row.source_id)
        #: Tables asked for that the role may not read: they keep nobody from copying the others.
        self.unreadable: Sequence[Unreadable] = ()

    def choose(self, origin: Connection) -> Sequence[SourceTable]:
        """Return the tables asked for, if their copies can take their rows."""
        wanted = self._options.tables
        with translated(self._source.endpoint, "cannot read the catalogue"):
            tables = [
                table
                for table in read_tables(origin)
                if not table.is_partitioned
                and not table.is_unlogged
                and self._source.selection.matches(table.root_schema, table.root_name)
                and (
                    wanted.matches(*table.key) or wanted.matches(table.root_schema, table.root_name)
                )
            ]
            closed = {
                item.key: item for item in read_unreadable_tables(origin, self._source.selection)
            }
        self.unreadable = [closed[table.key] for table in tables if table.key in closed]
        tables = [table for table in tables if table.key not in closed]
        self.check_columns(origin, tables)
        return tables

    def forget_gone(self, origin: Connection) -> Sequence[tuple[str, str]]:
        """Forget the tables asked for that lost changes and are no more, and return them.

        A table that was renamed is not among them: its copy has the old name until replay has
        renamed it too.
        """
        with translated(self._source.endpoint, "cannot read the catalogue"):
            present = {table.key for table in read_tables(origin)}
        marked = read_marked_pending(self._target, self._row.source_id)
        gone = [
            (schema, table)
            for schema, table in marked
            if (schema, table) not in present
            and self._options.tables.matches(schema, table)
            and not self._has_copy(schema, table)
        ]
        for key in gone:
            remove_table_row(self._target, self._row.source_id, key)
        return gone

    def _has_copy(self, schema: str, table: str) -> bool:
        ((found,),) = self._target.execute(
            "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname = %s and c.relname = %s)",
            (self.schemas.get(schema), table),
        ).fetchall()
        return bool(found)

    def check_columns(self, origin: Connection, tables: Sequence[SourceTable]) -> None:
        """Refuse copies that have other columns, or columns of other types, than the source."""
        with translated(self._source.endpoint, "cannot read the columns"):
            columns = {table.key: read_columns(origin, table.oid) for table in tables}
            # By now, with the locks taken: a name may have gone to another table.
            named = {table.key: table.oid for table in read_tables(origin)}
        oids = read_source_oids(self._target, self._row.source_id)
        for table in tables:
            expected = oids.get(table.key, table.oid)
            if not (named.get(table.key) == table.oid == expected):
                raise TargetError(
                    f"{self._endpoint}: {table} is another table on the source than its copy is of",
                    hint="Let replay apply the DDL that renames or drops the copy.",
                )
            self._check_columns(table, columns[table.key])

    def _check_columns(self, table: SourceTable, columns: Sequence[Column]) -> None:
        copy = find_copy(
            self._target, self._row.source_id, table.key, self.schemas.get(table.schema)
        )
        if copy is None:
            raise TargetError(
                f"{self._endpoint}: there is no copy of {table} that could be copied again",
                hint="Only tables that were copied once can be; copy the source again with"
                f" {command('basebackup', self._source.name, '--restart')}.",
            )
        if not is_copy_of(columns, read_columns(self._target, copy)):
            raise TargetError(
                f"{self._endpoint}: the copy of {table} has other columns than the table",
                hint="Let replay apply the DDL that waits, or give it the source's columns.",
            )

    def park(self, origin: Connection, tables: Sequence[SourceTable]) -> None:
        """Let replay leave the tables alone from its next transaction on."""
        unsent: Mapping[tuple[str, str], Unsent] = {}
        if self._source.plugin == "pgoutput":
            with translated(self._source.endpoint, "cannot read the publications"):
                unsent = read_publications(origin, self._source).unsent(self._source.selection)
        keys = {table.key for table in tables}
        with translated(self._endpoint, "cannot park the tables"), self._target.transaction():
            for table in tables:
                park_for_resync(self._target, self._row.source_id, table.key)
                begin_resync(self._target, self._row.source_id, table.key)
            record_unsent(
                self._target,
                self._row.source_id,
                {name: count for name, count in unsent.items() if name in keys},
            )

    def await_replay(self) -> None:
        """Wait for transactions of replay that may not know yet that the tables are parked."""
        source_id = self._row.source_id
        before = find_followers(self._target, source_id)

        def is_over() -> bool:
            return before.isdisjoint(find_followers(self._target, source_id))

        if not self._wait(is_over):
            raise TargetUnavailable(
                f"{self._endpoint}: replay is at work on a batch for {self._options.wait_s} s",
                hint=_AGAIN,
            )

    def await_writers(self, origin: Connection) -> None:
        """Wait for transactions of the source that are open now.

        One of them may have written its commit to the WAL, and the target may have applied it,
        while a new snapshot does not see it yet: it would be in neither the copy nor what waits.
        """
        # A number of our own: a snapshot's end says nothing of open transactions after it.
        ((limit,),) = origin.execute("select pg_current_xact_id()::text").fetchall()

        def is_over() -> bool:
            ((is_past,),) = origin.execute(
                "select pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8", (limit,)
            ).fetchall()
            return bool(is_past)

        with translated(self._source.endpoint, "cannot wait for open transactions"):
            if not self._wait(is_over):
                writers = "; ".join(map(str, read_writers(origin)[:5]))
                raise SourceUnavailable(
                    f"{self._source.endpoint}: open transactions that a copy must wait for:"
                    f" {writers}",
                    hint=_AGAIN,
                )

    def _wait(self, is_over: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + self._options.wait_s
        while not is_over():
            if time.monotonic() > deadline:
                return False
            self._options.pause(_POLL_S)
        return True

    def copy(
        self,
        keeper: Keeper,
        tables: Sequence[SourceTable],
        workers: CopyWorkers,
        watcher: Watcher,
    ) -> None:
        """Empty the tables and copy them under the snapshot."""
        RowCopy(
            source=self._source.endpoint,
            endpoint=self._endpoint,
            target=self._target,
            source_id=self._row.source_id,
            target_schemas=self.schemas,
            watcher=watcher,
            is_live=True,
        ).run(keeper, tables, workers, lambda: self._empty(tables))

    def _empty(self, tables: Sequence[SourceTable]) -> None:
        self._target.execute("set local session_replication_role = replica")
        lock_s = self._options.lock_s or self._options.wait_s
        self._target.execute(SQL("set local lock_timeout = {}").format(Literal(f"{lock_s}s")))
        # Of a run that was killed; waits for its tasks that are still at work.
        remove_parts(self._target, self._row.source_id, [table.key for table in tables])
        for table in tables:
            copy = Identifier(self.schemas[table.schema], table.name)
            ((is_referenced,),) = self._target.execute(
                "select exists (select from pg_constraint where contype = 'f'"
                " and confrelid = %s::regclass and conrelid <> confrelid)",
                (copy.as_string(),),
            ).fetchall()
            # PostgreSQL does not truncate what foreign keys refer to, whether they are in force.
            statement = SQL("delete from only {}" if is_referenced else "truncate only {}")
            self._target.execute(statement.format(copy))
