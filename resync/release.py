"""Copy tables again and let them go on: by ``pgrepl resync``, and by replay after DDL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from psycopg import errors

from pgrepl.basebackup.report import Phase
from pgrepl.catalog.unreadable import unreadable_error
from pgrepl.config.naming import TableSelection, exact_pattern, shown_name
from pgrepl.ddl_capture import Applier
from pgrepl.errors import PgreplError, UsageError
from pgrepl.lsn import Lsn
from pgrepl.postgres.advisory_locks import (
    copy_lock,
    resync_lock,
    share_session_lock,
    take_lock,
)
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.parked.parked_tables import find_parked
from pgrepl.replayer.parked.work_off import retry_table
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import make_awaited_keys, resync_tables
from pgrepl.store.parked import ParkedTable, follow_parking, list_parked, lock_parked
from pgrepl.store.resync.resync_queue import clear_due, read_due
from pgrepl.store.resync.running_resyncs import find_resync, remove_resync
from pgrepl.store.sources import find_source
from pgrepl.store.tables.copy_work import TableProgress
from pgrepl.store.tables.roots import read_roots

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.postgres.connect import Connection

__all__ = ["TableCopies", "apply_waiting", "retry_waiting"]

_Name = tuple[str, str]

#: Replay goes on beside it, and so do the source and the readers of the target.
_JOBS = 2
_WAIT_S = 60
#: How often a lock is tried again that replay and a resync took from one another.
_DEADLOCKS = 5


def apply_waiting(
    config: Config, connection: Connection, source: str, tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Apply what waited for tables that are copied, let them go on, and count the changes.

    Raises
    ------
    DdlError
        when that failed for some of them, after the others.

    """
    applied: dict[tuple[str, str], int] = {}
    failed: PgreplError | None = None
    for family in _families(connection, source, tables):
        try:
            with _together(config, connection, source, family):
                for key in family:
                    try:
                        applied[key] = _apply_waiting(config, connection, source, key)
                    except PgreplError as exc:
                        failed = failed or exc
        except PgreplError as exc:
            failed = failed or exc
    if failed is not None:
        raise failed
    return applied


def _apply_waiting(config: Config, connection: Connection, source: str, key: _Name) -> int:
    """Apply what waited for one table, end its resync, and count the changes."""
    waiting = _find_waiting(connection, source, key)
    if waiting is None:
        # Worked off meanwhile: with one that DDL ties it to, by a person, or by replay when a
        # lock was free. Its resync is over.
        return 0
    source_id = waiting.source_id
    found = read_due(connection, source_id)
    due = [table for table in found if table.key == key and not table.is_wrong]
    # Found before: once it goes on, DDL may give its name to another table.
    resync = find_resync(connection, source_id, key)
    try:
        # With the mark: a kill in between would have the table copied once more.
        note = partial(clear_due, connection, source_id, due)
        count = retry_waiting(config, connection, source, key, note=note)
    except UsageError:
        # In this very moment.
        count = 0
        clear_due(connection, source_id, due)
    if resync is not None:
        remove_resync(connection, resync.resync_id)
    return count


def _families(
    connection: Connection, source: str, tables: Sequence[_Name]
) -> Sequence[Sequence[_Name]]:
    """Return tables by the root that they are partitions of; others are alone."""
    row = find_source(connection, source)
    roots = {} if row is None else read_roots(connection, row.source_id)
    families: dict[_Name, list[_Name]] = {}
    for key in tables:
        families.setdefault(roots.get(key, key), []).append(key)
    return list(families.values())


@contextmanager
def _together(
    config: Config, connection: Connection, source: str, family: Sequence[_Name]
) -> Iterator[None]:
    """Have partitions go on in one transaction: a row that moved between them is seen once."""
    row = find_source(connection, source)
    if row is None or len(family) == 1:
        yield
        return
    with (
        translated(config.target.endpoint, "cannot apply what waited"),
        connection.transaction(),
    ):
        _lock(connection, row.source_id, family)
        yield


def _lock(connection: Connection, source_id: int, family: Sequence[_Name]) -> None:
    """Keep replay from adding to any of some tables, which it takes in any order itself."""
    for _ in range(_DEADLOCKS):
        with suppress(errors.DeadlockDetected), connection.transaction():
            follow_parking(connection, source_id)
            for key in sorted(family):
                lock_parked(connection, source_id, key)
            return
    raise errors.DeadlockDetected("replay and the resync wait for one another")


def _find_waiting(connection: Connection, source: str, key: tuple[str, str]) -> ParkedTable | None:
    """Return the table as it is parked; None: it is not."""
    return next((table for table in list_parked(connection, source) if table.name == key), None)


def retry_waiting(
    config: Config,
    connection: Connection,
    source: str,
    key: tuple[str, str],
    *,
    note: Callable[[], None] = lambda: None,
) -> int:
    """Apply what waited for a table, copied or not, let it go on, and count the changes.

    ``note`` writes down, in that transaction, what else is done with it.

    Raises
    ------
    DdlError
        when that failed; all of it waits on.

    """
    parked = find_parked(connection, source, shown_name(*key))
    return retry_table(connection, config, parked, Applier(config), _SETTINGS, note=note)


#: What waited is applied in pieces: one takes about four times its bytes in memory.
_SETTINGS = ReplaySettings(chunk_bytes=16 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class TableCopies:
    """Copies tables by processes of our own, as Spark is replay's."""

    config: Config
    #: What each source's copies know of its log of DDL.
    _ddl_seen: dict[str, dict[int, Lsn]] = field(default_factory=dict)

    def copy(
        self, source: str, tables: Sequence[tuple[str, str]], pause: Callable[[float], None]
    ) -> Mapping[tuple[str, str], PgreplError]:
        """Copy tables and apply what waited; ``pause`` sleeps, or raises to break it off.

        Returns those that nobody may read, each with why.
        """
        options = ResyncOptions(
            tables=TableSelection.of(exact_pattern(*table) for table in tables),
            jobs=_JOBS,
            wait_s=_WAIT_S,
            is_local=True,
            starts_over=False,
            ddl_seen=self._ddl_seen.setdefault(source, {}),
            pause=pause,
        )
        config = self.config.source(source)
        report = resync_tables(
            self.config,
            config,
            options,
            _Watcher(pause),
            lambda copied: self.apply_waiting(
                source, [(t.schema_name, t.table_name) for t in copied]
            ),
        )
        return {item.key: unreadable_error(config.endpoint, [item]) for item in report.unreadable}

    def go_on(self, source: str, tables: Sequence[tuple[str, str]]) -> None:
        """Apply what waited for tables that are copied already."""
        with closing(open_session(self.config.target.endpoint, _SETTINGS)) as connection:
            share_session_lock(connection, copy_lock(source))
            for table in tables:
                take_lock(connection, resync_lock(source, table))
            apply_waiting(self.config, connection, source, tables)
        # Who was to make them was killed.
        make_awaited_keys(self.config, self.config.source(source))

    def apply_waiting(self, source: str, tables: Sequence[tuple[str, str]]) -> None:
        """Apply what waited for tables that this process has copied."""
        with closing(open_session(self.config.target.endpoint, _SETTINGS)) as connection:
            apply_waiting(self.config, connection, source, tables)


@dataclass(frozen=True, slots=True)
class _Watcher:
    """Watches only for whether to go on."""

    pause: Callable[[float], None]

    def begin(self, _: Phase) -> None:
        self.pause(0.0)

    def show(self, _: Sequence[TableProgress]) -> None:
        self.pause(0.0)
