"""The target is opened for receiving: by one session for each source, and no other."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing

from psycopg import errors

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning, TargetError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import receive_lock, try_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.durability import await_standbys, flush_commits
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.predecessor import is_alive
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.store.migrations import migrate
from pgrepl.store.rules import RULES_CHANGED, take_rules
from pgrepl.store.sources import SourceRow, find_source, record_patterns
from pgrepl.store.streams import add_stream
from pgrepl.store.tables.unselected import mark_unselected
from pgrepl.terminal import command

__all__ = ["LiveReceiver", "open_spool"]

logger = logging.getLogger(__name__)


class LiveReceiver(AlreadyRunning):
    """Another receiver runs, and it is not just dying."""


def open_spool(config: SourceConfig, target: Endpoint) -> SpoolSession:
    """Open the target for receiving; only one session at a time can.

    Raises
    ------
    AlreadyRunning
        when another receiver, or one that is just dying, holds the origin.

    """
    connection = connect(target, "receive")
    try:
        migrate(connection, target)
        with translated(target, "cannot prepare the session"):
            # Nothing is confirmed to the source before it is on disk here.
            flush_commits(connection)
        if not config.is_database:
            return _open_stream(connection, config, target)
        with translated(target, "cannot read the source"):
            found = find_source(connection, config.name)
        source = _checked_source(found, config)
        _take_origin(connection, target, source)
        beside = _begin(config, target, source)
    except BaseException:
        connection.close()
        raise
    return SpoolSession(connection, target, source, selection=config.selection, beside=beside)


def _begin(config: SourceConfig, target: Endpoint, source: SourceRow) -> Connection:
    """Write down what is received from now on.

    In another session, which is returned: the one that holds the origin writes the spool only.
    """
    with ExitStack() as stack:
        beside = stack.enter_context(closing(connect(target, "receive")))
        with translated(target, "cannot begin"):
            # Where it begins is confirmed to the source before anything else is committed.
            await_standbys(beside)
            selection = config.selection
            record_patterns(
                beside,
                source.source_id,
                include=[pattern.text for pattern in selection.include],
                exclude=[pattern.text for pattern in selection.exclude],
            )
            reach("receiver.patterns_taken")
            mark_unselected(beside, source.source_id, selection)
            for changed in take_rules(beside, source.source_id, config.rules):
                logger.warning("%s: %s", shown_name(*changed), RULES_CHANGED)
            reach("receiver.rules_taken")
        stack.pop_all()
    return beside


def _open_stream(connection: Connection, config: SourceConfig, target: Endpoint) -> SpoolSession:
    """Open the target for records: there is nothing to copy first, and no origin."""
    with translated(target, "cannot prepare the session"):
        lock = receive_lock(config.name)
        if not try_lock(connection, lock):
            raise (LiveReceiver if is_alive(connection, lock) else AlreadyRunning)(
                f'another receiver of source "{config.name}" runs',
                hint="Only one receiver per source can run; pg_stat_activity shows it as"
                " pgrepl-receive.",
            )
        with connection.transaction():
            source = add_stream(connection, config.name, config.slot)
        reach("receiver.stream_added")
    if source.system_identifier:
        raise TargetError(
            f'source "{config.name}" was copied from a database,'
            f' and is of kind "{config.kind}" now',
            hint=f"Give it another name, or remove it first: {command('drop', config.name)}",
        )
    return SpoolSession(connection, target, source, holds_origin=False)


def _checked_source(source: SourceRow | None, config: SourceConfig) -> SourceRow:
    if source is None or source.state != "streaming":
        state = "was never copied" if source is None else f'is in state "{source.state}"'
        raise TargetError(
            f'source "{config.name}" {state}, so there is nothing to stream onto',
            hint=f"Run: {command('basebackup', config.name)}",
        )
    if source.slot != config.slot:
        raise TargetError(
            f'source "{config.name}" was copied with slot "{source.slot}",'
            f' the configuration says "{config.slot}"',
            hint=f'Set slot = "{source.slot}" in [sources.{config.name}].',
        )
    return source


def _take_origin(connection: Connection, target: Endpoint, source: SourceRow) -> None:
    """Take the origin: whoever has it is the only receiver."""
    origin = source.slot
    with translated(target, f'cannot use replication origin "{origin}"'):
        # PostgreSQL does not tell who has an origin, but who has a lock.
        lock = receive_lock(source.name)
        is_first = try_lock(connection, lock)
        try:
            connection.execute("select pg_replication_origin_session_setup(%s)", (origin,))
        except errors.ObjectInUse as exc:
            is_certain = not is_first and is_alive(connection, lock)
            raise (LiveReceiver if is_certain else AlreadyRunning)(
                f'another receiver has replication origin "{origin}" on the target',
                hint="Only one receiver per source can run; pg_stat_activity shows it as"
                " pgrepl-receive.",
            ) from exc
        except errors.UndefinedObject as exc:
            raise TargetError(
                f'replication origin "{origin}" does not exist on the target',
                hint="pg_upgrade and a dump leave it behind. If this server alone is to receive the"
                f" source from now on: {command('adopt', source.name)}",
            ) from exc
