"""Copy tables again while streaming goes on: each in the way that suits it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

import psycopg

from pgrepl.basebackup.report import Watcher
from pgrepl.basebackup.same_source import check_same
from pgrepl.catalog.rule_facts import check_rules
from pgrepl.catalog.tables import SourceTable, read_table_names
from pgrepl.catalog.unreadable import unreadable_error
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import TableSelection, exact_pattern, shown_name
from pgrepl.errors import PgreplError, SourceChanged, TargetError, UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import (
    copy_lock,
    resync_lock,
    share_session_lock,
    take_lock,
)
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.server import identify
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.changed import TablesChangedError, await_settled
from pgrepl.resync.chunked import ChunkedResync, ObstacleError, run_chunked
from pgrepl.resync.joining.empty_roots import make_empty_roots
from pgrepl.resync.joining.late_keys import make_late_keys
from pgrepl.resync.joining.missing_keys import is_awaited, note_awaited
from pgrepl.resync.leftovers import forget_ended
from pgrepl.resync.references import References
from pgrepl.resync.report import CancelledError, ResyncOptions, ResyncReport
from pgrepl.resync.requests import Requests
from pgrepl.resync.sides import Sides, Whole
from pgrepl.resync.slot import check_slot
from pgrepl.resync.tables import Choosing, DdlPendingError
from pgrepl.resync.waiting import hearing_cancel
from pgrepl.resync.whole.run import WholeResync
from pgrepl.resync.whole.shadow import drop_orphans
from pgrepl.store.migrations import migrate
from pgrepl.store.resync.running_resyncs import (
    Amount,
    ResyncRow,
    fail_resync,
)
from pgrepl.store.rules import check_current
from pgrepl.store.sources import SourceRow, find_source
from pgrepl.store.tables.copy_work import TableProgress, read_left_out, read_progress
from pgrepl.terminal import command

__all__ = ["make_awaited_keys", "resync_tables"]

logger = logging.getLogger(__name__)

_STAGE = "basebackup"
#: A table that changes again and again whenever its copy begins is left to a person.
_MOST_ATTEMPTS = 20


def resync_tables(
    config: Config,
    source: SourceConfig,
    options: ResyncOptions,
    watcher: Watcher,
    go_on: Callable[[Sequence[TableProgress]], None] = lambda _: None,
) -> ResyncReport:
    """Copy tables again. Interrupted, the same call goes on.

    ``go_on`` applies what waited for the tables, while nobody else can begin to copy them.

    Raises
    ------
    PgreplError
        whatever is wrong.

    """
    begin = time.monotonic()
    changed: TablesChangedError | None = None
    done: list[TableProgress] = []
    for _ in range(_MOST_ATTEMPTS):
        try:
            report = _attempt(config, source, options, watcher, go_on)
        except TablesChangedError as exc:
            if not options.starts_over:
                raise exc.error from exc
            changed = exc
            done += exc.done
        except DdlPendingError:
            # Of a table that has just changed it is a matter of time.
            if changed is None:
                raise
        else:
            seconds = time.monotonic() - begin
            return replace(report, tables=[*done, *report.tables], seconds=seconds)
        logger.info("resync starts over: %s", changed.error.message)
        names = await_settled(config, source, options, changed)
        if not names:
            gone = [table.key for table in changed.tables]
            seconds = time.monotonic() - begin
            return ResyncReport(source=source.name, tables=done, gone=gone, seconds=seconds)
        chosen = TableSelection.of(exact_pattern(*name) for name in names)
        options = replace(options, tables=chosen, is_where_needed=False)
    raise AssertionError("no attempt was made") if changed is None else changed.error


def _attempt(
    config: Config,
    source: SourceConfig,
    options: ResyncOptions,
    watcher: Watcher,
    go_on: Callable[[Sequence[TableProgress]], None],
) -> ResyncReport:
    endpoint = config.target.endpoint
    with ExitStack() as stack:
        target = stack.enter_context(connect(endpoint, _STAGE))
        migrate(target, endpoint)
        share_session_lock(target, copy_lock(source.name))
        with translated(endpoint, "cannot go on"):
            sides = _open_sides(config, source, options, target, stack)
            chosen = _choose(sides)
        chosen.check(sides)
        tables = _copy(sides, chosen, watcher, go_on)
    return ResyncReport(
        source=source.name,
        tables=tables,
        gone=chosen.gone,
        unreadable=chosen.choosing.unreadable,
        passed_over=chosen.passed_over,
        seconds=0.0,
    )


def _open_sides(
    config: Config,
    source: SourceConfig,
    options: ResyncOptions,
    target: Connection,
    stack: ExitStack,
) -> Sides:
    """Connect to the source, and make sure that it is the one that was copied, by its rules."""
    row = _checked(source, find_source(target, source.name))
    check_same(source, row, identify(source.endpoint, _STAGE))
    drop_orphans(target, config.target.endpoint)
    source_session = stack.enter_context(connect(source.endpoint, _STAGE))
    with translated(source.endpoint, "cannot prepare the session"):
        source_session.execute(
            "select set_config('lock_timeout', %s, false)", (f"{options.wait_s}s",)
        )
        check_rules(source_session, source)
    check_current(target, row.source_id, source.name, source.rules)
    sides = Sides(
        config=config,
        source=source,
        options=options,
        row=row,
        target=target,
        source_session=source_session,
    )
    check_slot(sides)
    return sides


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What was found for the names given."""

    choosing: Choosing
    tables: Sequence[SourceTable]
    gone: Sequence[tuple[str, str]]
    passed_over: Sequence[tuple[str, str]]

    def check(self, sides: Sides) -> None:
        """Refuse names for which there is nothing to do, unless nothing may be needed."""
        if self.tables or self.gone or self.choosing.empty_roots:
            return
        if self.choosing.unreadable:
            raise unreadable_error(sides.source.endpoint, self.choosing.unreadable)
        if sides.options.is_where_needed:
            return
        name = sides.source.name
        if self.passed_over:
            names = ", ".join(shown_name(*key) for key in self.passed_over)
            raise UsageError(
                f'the patterns of source "{name}" do not take in {names}: a copy that is'
                " there stays as it is, and gets no changes",
                hint="Take it in in pgrepl.toml, restart pgrepl receive, and run the same command.",
            )
        raise UsageError(
            f'no replicated table of source "{name}" matches the names given',
            hint="Write schema.table as on the source; * stands for any characters.",
        )


def _choose(sides: Sides) -> _Chosen:
    """Forget what has ended, and look for the tables asked for."""
    with sides.saying_for_whom(sides.target):
        forget_ended(sides.target, sides.row, read_table_names(sides.source_session))
    choosing = Choosing(sides)
    with sides.saying_for_whom(sides.source_session):
        tables = choosing.choose()
    return _Chosen(choosing, tables, choosing.forget_gone(), choosing.find_passed_over())


def _copy(
    sides: Sides,
    chosen: _Chosen,
    watcher: Watcher,
    go_on: Callable[[Sequence[TableProgress]], None],
) -> Sequence[TableProgress]:
    """Copy the tables, apply what waited, and make the foreign keys between them."""
    make_empty_roots(sides, chosen.choosing.empty_roots)
    References(sides, chosen.tables).drop()
    if not chosen.tables:
        return ()
    run = _Run(sides, chosen.choosing, watcher)
    copied, live = run.copy(chosen.tables)
    if copied:
        watcher.begin("changes that waited")
        go_on(copied)
        run.finish()
    note_awaited(sides)
    make_late_keys(sides)
    return [*copied, *live]


def make_awaited_keys(config: Config, source: SourceConfig) -> None:
    """Make the foreign keys that a resync which was killed left word of."""
    endpoint = config.target.endpoint
    with connect(endpoint, _STAGE) as target:
        with translated(endpoint, "cannot look for foreign keys"):
            row = _checked(source, find_source(target, source.name))
            if not any(map(is_awaited, read_left_out(target, row.source_id))):
                return
        with connect(source.endpoint, _STAGE) as source_session:
            sides = Sides(
                config=config,
                source=source,
                options=ResyncOptions(tables=TableSelection.of([])),
                row=row,
                target=target,
                source_session=source_session,
            )
            note_awaited(sides)
            make_late_keys(sides)


def _checked(source: SourceConfig, row: SourceRow | None) -> SourceRow:
    if row is None or row.state != "streaming":
        state_of = "was never copied" if row is None else f'is in state "{row.state}"'
        raise TargetError(
            f'source "{source.name}" {state_of}, so no table of it can be copied again',
            hint=f"Run: {command('basebackup', source.name)}",
        )
    return row


class _Run:
    def __init__(self, sides: Sides, choosing: Choosing, watcher: Watcher) -> None:
        self._sides = sides
        self._target = sides.target
        self._choosing = choosing
        self._watcher = watcher
        self._wholes: list[WholeResync] = []

    def copy(
        self, tables: Sequence[SourceTable]
    ) -> tuple[Sequence[TableProgress], Sequence[TableProgress]]:
        """Copy the tables, each in its way; those for which changes may wait, and the others."""
        endpoint = self._sides.endpoint
        for table in tables:
            take_lock(self._target, resync_lock(self._sides.source.name, table.key))
        with (
            self._sides.saying_for_whom(self._sides.source_session),
            translated(endpoint, "cannot record what is to be copied"),
        ):
            rows = Requests(self._sides, self._choosing).make(tables)
        reach("resync.requested")
        self._hear_cancel([row.resync_id for row in rows.values()])
        chunked = [t for t in tables if rows[t.key].way == "chunked"]
        live: list[tuple[str, str]] = []
        try:
            self._run_whole([Whole(t, rows[t.key]) for t in tables if t not in chunked])
            for done, table in enumerate(chunked):
                try:
                    resync = self._run_chunked(table, rows[table.key])
                except SourceChanged as exc:
                    left = [t for t in tables if t not in chunked[:done]]
                    raise TablesChangedError(left, exc, self._read_progress(live)) from exc
                del rows[table.key]
                rows[resync.key] = resync
                if resync.way == "chunked":
                    live.append(resync.key)
        except CancelledError:
            raise
        except SourceChanged as exc:
            raise TablesChangedError(tables, exc) from exc
        except PgreplError as exc:
            self._note(rows.values(), exc)
            raise
        return self._read_progress(rows.keys() - set(live)), self._read_progress(live)

    def _hear_cancel(self, resync_ids: Sequence[int]) -> None:
        """Look for a request to cancel whenever something is waited for."""
        options = self._sides.options
        pause = hearing_cancel((self._sides.endpoint, self._target), resync_ids, options.pause)
        options = replace(options, pause=pause)
        self._sides = replace(self._sides, resync_ids=resync_ids, options=options)

    def _read_progress(self, keys: Collection[tuple[str, str]]) -> Sequence[TableProgress]:
        """Return what was copied of some tables."""
        with translated(self._sides.endpoint, "cannot read what was copied"):
            return [
                progress
                for progress in read_progress(self._target, self._sides.source_id)
                if (progress.schema_name, progress.table_name) in keys
            ]

    def finish(self) -> None:
        """Do what has to wait until the tables are caught up."""
        for whole in self._wholes:
            whole.finish()

    def _run_whole(self, wholes: Sequence[Whole]) -> None:
        if wholes:
            self._wholes.append(WholeResync(self._sides, self._choosing, self._watcher))
            self._wholes[-1].run(wholes)

    def _run_chunked(self, table: SourceTable, resync: ResyncRow) -> ResyncRow:
        """Copy a table in chunks; as a whole, if it cannot be any more and that was not asked for.

        Returned is the resync in the way it took, of the table by its name of now.
        """
        self._watcher.begin("chunks")
        try:
            schema, name = run_chunked(
                ChunkedResync(
                    sides=self._sides,
                    table=table,
                    resync=resync,
                    show=lambda amount: self._watcher.show([_progress(table, amount)]),
                )
            )
        except ObstacleError as exc:
            if self._sides.options.way == "chunked":
                raise
            logger.warning("%s: it is copied as a whole", exc.message)
            as_whole = replace(resync, way="whole", state="requested")
            self._run_whole([Whole(table, as_whole)])
            return as_whole
        return replace(resync, schema_name=schema, table_name=name)

    def _note(self, rows: Iterable[ResyncRow], error: PgreplError) -> None:
        """Keep what went wrong for status, if the target can be told."""
        with suppress(psycopg.Error):
            for row in rows:
                fail_resync(self._target, row.resync_id, error.message)


def _progress(table: SourceTable, amount: Amount) -> TableProgress:
    """Return how far a table is that is copied in chunks, as bars show it."""
    size = amount.byte_estimate or amount.byte_count
    return TableProgress(
        *table.key,
        is_ready=False,
        size_bytes=size,
        done_bytes=int(size * (amount.part or 0.0)),
        row_count=amount.row_count,
        byte_count=amount.byte_count,
        seconds=0.0,
    )
