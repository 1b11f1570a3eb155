"""The capture on a source: make it, switch it, look at it, take it away.

Event triggers belong to superusers. Where pgrepl's own role is none, the same statements can be
printed and run by one who is; to switch the capture it has a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg.rows import class_row

from pgrepl.config.model import SourceConfig
from pgrepl.ddl_capture.scripts import (
    TRIGGERS,
    Statement,
    grants,
    horizon_statement,
    install_script,
    query,
    switch_script,
    uninstall_script,
)
from pgrepl.errors import SourceError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.terminal import command, shell_word

__all__ = ["CaptureStatus", "install", "is_capturing", "read_status", "switch", "uninstall"]

_STAGE = "ddl"


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """How a source's capture is."""

    #: absent, partial, disabled or enabled.
    state: str
    installed_at: datetime | None = None
    #: Every DDL that committed from here on is captured. None: not certain yet.
    complete_lsn: Lsn | None = None
    #: How many rows of the log are not pruned yet, and when the newest was written.
    row_count: int | None = None
    last_at: datetime | None = None
    #: When it was last switched off, and where in the WAL.
    off_at: datetime | None = None
    off_lsn: Lsn | None = None
    #: Whether an older version of pgrepl installed it.
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    """The row of ``sql/capture_state.sql``."""

    trigger_count: int
    enabled_count: int
    has_log: bool
    #: Whether the role may look at the tables of the capture, and note when it became complete.
    is_readable: bool
    is_writable: bool
    #: Whether there is the function that switches it, and the role may call it.
    has_switch: bool
    has_homonyms: bool
    may_switch: bool
    is_superuser: bool

    @property
    def word(self) -> str:
        if self.trigger_count == 0:
            return "absent"
        if self.trigger_count < len(TRIGGERS) or not self.has_log:
            return "partial"
        if self.enabled_count == 0:
            return "disabled"
        return "enabled" if self.enabled_count == len(TRIGGERS) else "partial"


def install(source: SourceConfig) -> CaptureStatus:
    """Install the capture, or renew it.

    Raises
    ------
    SourceError
        when the role may not make event triggers, or DDL of other sessions takes too long.

    """
    with connect(source.endpoint, _STAGE) as connection:
        _check_superuser(connection, source, "install")
        _run(connection, source, "install the capture of DDL", install_script(None))
        return _read_status(connection, source)


def uninstall(source: SourceConfig) -> None:
    """Remove the capture with its log."""
    with connect(source.endpoint, _STAGE) as connection:
        _check_superuser(connection, source, "uninstall")
        _run(connection, source, "remove the capture of DDL", uninstall_script())


def switch(source: SourceConfig, *, is_on: bool) -> CaptureStatus:
    """Enable or disable every trigger at once. What runs while they are off is not captured."""
    action = "enable" if is_on else "disable"
    with connect(source.endpoint, _STAGE) as connection:
        with translated(source.endpoint, "cannot read the state of the capture"):
            state = _read_state(connection)
        if state.word == "absent":
            raise SourceError(
                f"{source.endpoint}: no DDL is captured there",
                hint=f"Install it first: {command('ddl', 'install', source.name)}",
            )
        if state.may_switch:
            with translated(source.endpoint, f"cannot {action} the capture of DDL"):
                connection.execute(query("note_altered"))
                connection.execute("select pgrepl.switch(%s)", (is_on,))
                if is_on:
                    connection.execute(horizon_statement())
        else:
            _check_superuser(connection, source, action)
            _run(connection, source, f"{action} the capture of DDL", switch_script(is_on=is_on))
        return _read_status(connection, source)


def _run(
    connection: Connection,
    source: SourceConfig,
    action: str,
    script: Sequence[Sequence[Statement]],
) -> None:
    try:
        with translated(source.endpoint, f"cannot {action}"):
            for statements in script:
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement)
                reach("ddl.capture_step")
    except SourceError as exc:
        if isinstance(exc.__cause__, psycopg.errors.LockNotAvailable):
            exc.hint = (
                "A transaction that ran DDL is still open, perhaps a prepared one"
                " (pg_stat_activity, pg_prepared_xacts); run the same command when it is over."
            )
        elif isinstance(exc.__cause__, psycopg.errors.ObjectNotInPrerequisiteState):
            exc.hint = exc.__cause__.diag.message_hint
        raise


def read_status(source: SourceConfig) -> CaptureStatus:
    """Return how the capture is, and note when it became complete."""
    with connect(source.endpoint, _STAGE) as connection:
        return _read_status(connection, source)


def _read_status(connection: Connection, source: SourceConfig) -> CaptureStatus:
    with translated(source.endpoint, "cannot read the state of the capture"):
        state = _read_state(connection)
        if state.word in ("absent", "partial"):
            return CaptureStatus(state.word)
        if not state.is_readable:
            raise _unreadable(connection, source, state.word)
        if state.is_writable:
            _note(connection, is_on=state.word == "enabled")
        row = connection.execute(
            "select installed_at, complete_lsn,"
            " (select count(*) from pgrepl.ddl_log),"
            " (select max(stmt_at) from pgrepl.ddl_log),"
            # An older version has no such columns.
            " (to_json(c)->>'off_at')::timestamptz, (to_json(c)->>'off_lsn')::pg_lsn"
            " from pgrepl.capture c"
        ).fetchone()
    found = CaptureStatus(state.word) if row is None else CaptureStatus(state.word, *row)
    return replace(found, is_outdated=not (state.has_switch and state.has_homonyms))


def _unreadable(connection: Connection, source: SourceConfig, word: str) -> SourceError:
    role = connection.info.user
    statements = "; ".join(statement.as_string() for statement in grants(role))
    return SourceError(
        f'{source.endpoint}: the capture of DDL is {word}, but role "{role}" may not see from where'
        " on it is complete",
        hint=f"Let a superuser run there: {statements}.",
    )


def _note(connection: Connection, *, is_on: bool) -> None:
    """Write down what time has shown since the triggers were switched.

    The position, once all transactions from before the triggers are over; or that they are off,
    when another session disabled them.
    """
    if not is_on:
        connection.execute(
            "update pgrepl.capture set horizon = '18446744073709551615', complete_lsn = null"
            " where horizon <> '18446744073709551615'"
        )
        return
    connection.execute(query("note_altered"))
    connection.execute(
        "update pgrepl.capture set horizon = pg_snapshot_xmax(pg_current_snapshot())"
        # Whoever enabled them may not have come to it.
        " where horizon = '18446744073709551615'"
    )
    connection.execute(
        "update pgrepl.capture set complete_lsn = pg_current_wal_insert_lsn()"
        " where complete_lsn is null and horizon <= pg_snapshot_xmin(pg_current_snapshot())"
    )


def is_capturing(connection: Connection) -> bool:
    """Whether every command is captured now."""
    return _read_state(connection).word == "enabled"


def _read_state(connection: Connection) -> _State:
    with connection.cursor(row_factory=class_row(_State)) as cursor:
        row = cursor.execute(query("capture_state")).fetchone()
    if row is None:
        raise SourceError("the source's catalogue answered with nothing")
    return row


def _check_superuser(connection: Connection, source: SourceConfig, action: str) -> None:
    with translated(source.endpoint, "cannot read the role's attributes"):
        if _read_state(connection).is_superuser:
            return
    info = connection.info
    way = source.endpoint.dsn.for_another_user(host=info.host, port=info.port, dbname=info.dbname)
    raise SourceError(
        f'{source.endpoint}: role "{info.user}" is no superuser,'
        f" so it cannot {action} event triggers",
        hint=f"Let a superuser do it: {command('ddl', action, source.name, '--sql')} |"
        f" psql -X -v ON_ERROR_STOP=1 {shell_word(f'{way} user=postgres')}",
    )
