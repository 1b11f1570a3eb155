"""The capture on a source: make it, switch it, look at it, take it away.

Event triggers belong to superusers. Where pgrepl's own role is none, the same statements can be
printed and run by somebody who is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.rows import class_row
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.config import SourceConfig
from pgrepl.errors import SourceError
from pgrepl.lsn import Lsn
from pgrepl.postgres import Connection, connect
from pgrepl.queries import load_query
from pgrepl.sqlstate import translated
from pgrepl.terminal import command, shell_word

__all__ = [
    "CaptureStatus",
    "horizon_statement",
    "install",
    "install_script",
    "read_status",
    "switch",
    "uninstall",
]

_PACKAGE = "pgrepl.ddl_capture"
_STAGE = "ddl"
_EVENTS = ("ddl_command_start", "table_rewrite", "sql_drop", "ddl_command_end")
_TRIGGERS = tuple(f"pgrepl_{event}_{step}" for event in _EVENTS for step in (0, 1))


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """How a source's capture is."""

    #: absent, partial, disabled or enabled.
    state: str
    installed_at: str | None = None
    #: Every DDL that committed from here on is captured. None: not certain yet.
    complete_lsn: Lsn | None = None
    #: How many rows of the log are not pruned yet, and when the newest was written.
    row_count: int | None = None
    last_at: str | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """The row of ``sql/capture_state.sql``."""

    trigger_count: int
    enabled_count: int
    has_log: bool
    #: Whether the role may look at the tables of the capture, and note when it became complete.
    is_readable: bool
    is_writable: bool
    is_superuser: bool

    @property
    def word(self) -> str:
        if self.trigger_count == 0:
            return "absent"
        if self.trigger_count < len(_TRIGGERS) or not self.has_log:
            return "partial"
        if self.enabled_count == 0:
            return "disabled"
        return "enabled" if self.enabled_count == len(_TRIGGERS) else "partial"


def install_script(reader: str | None) -> Sequence[SQL | Composed]:
    """Return the statements that install the capture; ``reader`` may look at it afterwards."""
    parts: list[SQL | Composed] = [
        SQL(_query("drop_triggers")),
        SQL("create schema if not exists pgrepl"),
        SQL(_definition_function()),
        SQL(_query("install")),
    ]
    return parts if reader is None else [*parts, *_grants(reader)]


def _grants(reader: str) -> Sequence[Composed]:
    role = Identifier(reader)
    return [
        SQL("grant usage on schema pgrepl to {}").format(role),
        SQL("grant select on pgrepl.ddl_log to {}").format(role),
        SQL("grant select, update on pgrepl.capture to {}").format(role),
    ]


def horizon_statement() -> LiteralString:
    """Return the statement to run once the others have committed."""
    return _query("horizon")


def _definition_function() -> LiteralString:
    return (
        "create or replace function pgrepl.table_definition(rel oid) returns json language sql"
        " stable set search_path = pg_catalog, pg_temp as $function$\n"
        + _query("table_definition")
        + "$function$"
    )


def install(source: SourceConfig) -> CaptureStatus:
    """Install the capture, or renew it.

    Raises
    ------
    SourceError
        when the role may not make event triggers.

    """
    with connect(source.endpoint, _STAGE) as connection:
        _check_superuser(connection, source, "install")
        with (
            translated(source.endpoint, "cannot install the capture of DDL"),
            connection.transaction(),
        ):
            for statement in install_script(None):
                connection.execute(statement)
        with translated(source.endpoint, "cannot install the capture of DDL"):
            connection.execute(_query("horizon"))
        return _read_status(connection, source)


def uninstall(source: SourceConfig) -> None:
    """Remove the capture with its log."""
    with connect(source.endpoint, _STAGE) as connection:
        _check_superuser(connection, source, "uninstall")
        with (
            translated(source.endpoint, "cannot remove the capture of DDL"),
            connection.transaction(),
        ):
            connection.execute(_query("drop_triggers"))
            connection.execute(_query("uninstall"))


def switch(source: SourceConfig, *, is_on: bool) -> CaptureStatus:
    """Enable or disable every trigger at once. What runs while they are off is not captured."""
    action = "enable" if is_on else "disable"
    with connect(source.endpoint, _STAGE) as connection:
        _check_superuser(connection, source, action)
        with translated(source.endpoint, f"cannot {action} the capture of DDL"):
            if _read_state(connection).word == "absent":
                raise SourceError(
                    f"{source.endpoint}: no DDL is captured there",
                    hint=f"Install it first: {command('ddl', 'install', source.name)}",
                )
            with connection.transaction():
                for name in _TRIGGERS:
                    connection.execute(
                        SQL("alter event trigger {} {}").format(
                            Identifier(name), SQL("enable always" if is_on else "disable")
                        )
                    )
            if is_on:
                connection.execute(_query("horizon"))
        return _read_status(connection, source)


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
        if state.word == "enabled" and state.is_writable:
            _note_completeness(connection)
        row = connection.execute(
            "select installed_at::text, complete_lsn,"
            " (select count(*) from pgrepl.ddl_log),"
            " (select max(stmt_at)::text from pgrepl.ddl_log) from pgrepl.capture"
        ).fetchone()
    return CaptureStatus(state.word) if row is None else CaptureStatus(state.word, *row)


def _unreadable(connection: Connection, source: SourceConfig, word: str) -> SourceError:
    role = connection.info.user
    statements = "; ".join(statement.as_string() for statement in _grants(role))
    return SourceError(
        f'{source.endpoint}: the capture of DDL is {word}, but role "{role}" may not see from where'
        " on it is complete",
        hint=f"Let a superuser run there: {statements}.",
    )


def _note_completeness(connection: Connection) -> None:
    """Write down the position once all transactions from before the triggers are over."""
    connection.execute(
        "update pgrepl.capture set complete_lsn = pg_current_wal_insert_lsn()"
        " where complete_lsn is null and horizon <= pg_snapshot_xmin(pg_current_snapshot())"
    )


def _read_state(connection: Connection) -> _State:
    with connection.cursor(row_factory=class_row(_State)) as cursor:
        row = cursor.execute(_query("capture_state")).fetchone()
    if row is None:
        raise SourceError("the source's catalogue answered with nothing")
    return row


def _check_superuser(connection: Connection, source: SourceConfig, action: str) -> None:
    with translated(source.endpoint, "cannot read the role's attributes"):
        if _read_state(connection).is_superuser:
            return
    remedy = (
        f"{command('ddl', 'install', source.name, '--sql')} | psql -X -v ON_ERROR_STOP=1"
        f" -U postgres -d {shell_word(connection.info.dbname)}"
        if action == "install"
        else f"Run {command('ddl', action, source.name)} with a superuser in its dsn"
    )
    raise SourceError(
        f'{source.endpoint}: role "{connection.info.user}" is no superuser,'
        f" so it cannot {action} event triggers",
        hint=f"Let a superuser do it: {remedy}" if action == "install" else f"{remedy}.",
    )


def _query(name: str) -> LiteralString:
    return load_query(_PACKAGE, name)
