"""The target's side of DDL capture: what the replayer calls for each row of the log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import psycopg

from pgrepl.config.model import Config
from pgrepl.config.naming import NameClashError, shown_name
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture import journal
from pgrepl.ddl_capture.apply.command import Application
from pgrepl.ddl_capture.apply.forgetting import find_moved_away, find_replaced
from pgrepl.ddl_capture.apply.joining import start_over
from pgrepl.ddl_capture.apply.parking import ParkedError, check_parked
from pgrepl.ddl_capture.apply.ruled import RuledTables
from pgrepl.ddl_capture.apply.structure.compare import DifferentError
from pgrepl.ddl_capture.apply.structure.create_as import find_filled
from pgrepl.ddl_capture.apply.unproven_rows import is_any_due
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject, Rewrite, decode_event
from pgrepl.ddl_capture.decode.filled import FILLED
from pgrepl.ddl_capture.decode.statement import UnknownStatementError
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.journal import StatementStopped
from pgrepl.ddl_capture.omission import find_needed_columns, on_target
from pgrepl.ddl_capture.policy.rules import Included, RefusedError
from pgrepl.errors import DdlStopped, TargetUnavailable
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translate
from pgrepl.store.ddl_journal import Decision, add_history, remove_pending
from pgrepl.store.ddl_standing import read_standing
from pgrepl.store.parked_ddl import end_parking, find_group
from pgrepl.store.tables.source_names import Mention, source_names
from pgrepl.syntax.parse import SqlSyntaxError
from pgrepl.syntax.remap import RemapError
from pgrepl.terminal import command

__all__ = ["Applier"]

_UNTOLD = (
    DifferentError,
    NameClashError,
    RefusedError,
    RemapError,
    SqlSyntaxError,
    UnknownStatementError,
)
#: What the source had before the copy and no replicated table used is not on the target.
_MISSING = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
    psycopg.errors.UndefinedTable,
)

_EXTENSION = frozenset({"CREATE EXTENSION", "ALTER EXTENSION"})
#: Commands whose rows in the log name every table that they do something to.
_NAMING = frozenset(
    {
        *("ALTER INDEX", "ALTER SEQUENCE", "ALTER TABLE", "COMMENT", "CREATE INDEX"),
        *("CREATE SEQUENCE", "CREATE TABLE", "CREATE VIEW", "DROP INDEX", "DROP SEQUENCE"),
        *("DROP TABLE", "DROP VIEW"),
    }
)


@dataclass(slots=True)
class _Transaction:
    """What the triggers report of a command before its end, in a transaction of a source."""

    xid: int
    last_id: int = 0
    dropped: list[DroppedObject] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    tables: list[TableDefinition] = field(default_factory=list)
    #: The rows of the log themselves.
    texts: list[str] = field(default_factory=list)
    script_depth: int = 0

    def end_command(self) -> None:
        """Begin with nothing again."""
        self.dropped.clear()
        self.rewrites.clear()
        self.tables.clear()
        self.texts.clear()

    def is_in_script(self, event: CapturedEvent) -> bool:
        """Whether an extension's script did it, which is the extension's affair."""
        if event.tag in _EXTENSION and event.kind == "end":
            self.script_depth = max(0, self.script_depth - 1)
        is_in = self.script_depth > 0
        if event.tag in _EXTENSION and event.kind == "start":
            self.script_depth += 1
        return is_in


class Applier:
    """Applies captured DDL, of several sources in as many threads.

    Between two calls it remembers only what the triggers report before a command's end, in the same
    transaction: what it dropped and rewrote, and that an extension's script runs.
    """

    def __init__(self, config: Config) -> None:
        """Connect to nothing."""
        self._config = config
        self._open: dict[int, _Transaction] = {}

    def apply(self, connection: Connection, captured: CapturedDdl) -> None:
        """Apply one event inside the caller's open transaction, DML of its transaction around it.

        Raises
        ------
        DdlStopped
            when it cannot be applied, or its outcome differs from the source. The caller rolls
            back the whole transaction.
        TargetUnavailable
            when it could not be applied now and may be later: a lock was not to be had.

        """
        event = decode_event(captured.row)
        own = self._begin(captured, event)
        own.texts += filter(None, captured.row.values())
        if own.is_in_script(event):
            return
        if event.kind in ("drop", "rewrite"):
            own.dropped += event.dropped
            own.rewrites += [event.rewritten] if event.rewritten is not None else []
            own.tables += event.tables
            return
        is_filled = event.kind == "start" and event.tag in FILLED
        tables = find_filled(event, captured.read_rows()) if is_filled else event.tables
        source = self._config.source(captured.source.name)
        # The row of a DROP's end says itself what it dropped.
        own.dropped += [*event.dropped, *find_replaced(event)]
        reported = _newest([*own.tables, *tables])
        standing = read_standing(connection, captured.source.source_id, event.log_id)
        target = Workspace(connection, source, captured, event, standing)
        application = Application(
            target,
            Included(self._config.ddl.include, is_code_trusted=source.trust_code),
            event,
            (*own.dropped, *find_moved_away(target)),
            tuple(own.rewrites),
            [on_target(table, source.rules) for table in reported],
            [
                f"{shown_name(*table.key)}: {why}"
                for table in reported
                if source.selection.matches(*table.root)
                for why in find_needed_columns(table, source.rules)
            ],
        )
        # What a person wrote may be of any table.
        is_known = event.tag in _NAMING and standing.decision is None
        mention = Mention.of(own.texts) if is_known else Mention()
        if event.kind == "end":
            own.end_command()
        self._run(application, connection, captured, event, mention)

    def record_stop(
        self, connection: Connection, captured: CapturedDdl, stopped: DdlStopped
    ) -> None:
        """Keep for a person what stopped, after the rollback, in a transaction of its own."""
        self._open.pop(captured.source.source_id, None)
        with connection.transaction():
            journal.record_pending(connection, captured, decode_event(captured.row), stopped)

    def _begin(self, captured: CapturedDdl, event: CapturedEvent) -> _Transaction:
        source_id = captured.source.source_id
        own = self._open.get(source_id)
        if own is None or own.xid != event.xid or event.log_id <= own.last_id:
            # Another transaction, or this one again after it was rolled back, begins with nothing.
            own = self._open[source_id] = _Transaction(event.xid)
        own.last_id = event.log_id
        return own

    def _run(
        self,
        application: Application,
        connection: Connection,
        captured: CapturedDdl,
        event: CapturedEvent,
        mention: Mention,
    ) -> None:
        standing = application.target.standing
        try:
            # Whoever keeps what stopped does so in the same transaction.
            with connection.transaction(), self._names(application, event, mention):
                self._run_decided(application, captured, event, standing.decision)
        except _UNTOLD as exc:
            stopped = self._stopped(application, captured, event, str(exc))
            if isinstance(exc, ParkedError):
                stopped.tables |= exc.tables
                stopped.is_copied = exc.is_copied
            if stopped.is_copied:
                stopped.hint = "It goes on by itself when the table is copied."
            if stopped.is_copied and self._config.ddl.on_error == "stop":
                raise TargetUnavailable(stopped.message, hint=stopped.hint) from exc
            raise stopped from exc
        except psycopg.Error as exc:
            error = translate(exc, self._config.target.endpoint, f"cannot apply {event.tag}")
            if isinstance(error, TargetUnavailable):
                raise error from exc
            if (
                isinstance(exc, psycopg.IntegrityError)
                and self._config.ddl.on_error == "stop"
                and self._config.ddl.resync
                and is_any_due(application.target, application.tables)
            ):
                raise TargetUnavailable(
                    f"{error.message}; the table's rows are not the source's, and it waits for its"
                    " resync",
                    hint="It goes on by itself when the table is copied again.",
                ) from exc
            reason = error.message.partition(f"cannot apply {event.tag}: ")[2]
            stopped = self._stopped(application, captured, event, reason)
            if isinstance(exc, _MISSING):
                stopped.hint = (
                    "Make on the target what is missing there, then run"
                    f" {command('ddl', 'retry', captured.source.name)}; or settle it with"
                    " pgrepl ddl edit or skip."
                )
            raise stopped from exc
        if standing.was_pending:
            remove_pending(connection, captured.source.source_id, event.log_id)

    def _names(
        self, application: Application, event: CapturedEvent, mention: Mention
    ) -> AbstractContextManager[None]:
        """Give copies the names of their tables while a command is applied that may be of them."""
        target = application.target
        is_any = target.standing.is_any_named or target.source.rules.table_names
        if not is_any or (event.kind == "start" and event.tag not in FILLED):
            return nullcontext()
        return source_names(target.connection, target.source_id, target.source.rules, mention)

    def _run_decided(
        self,
        application: Application,
        captured: CapturedDdl,
        event: CapturedEvent,
        decision: Decision | None,
    ) -> None:
        if decision is not None and decision.kind == "skip":
            add_history(
                application.target.connection,
                journal.captured_statement(captured, event),
                "discarded",
                original=event.query,
                decided_by=decision.decided_by,
            )
        elif application.needed_columns and event.kind == "end":
            raise RefusedError(
                f"rules cannot hold after it: {'; '.join(application.needed_columns)}; choose"
                " another rule, have pgrepl receive run with it, and retry"
            )
        elif decision is not None and decision.edited is not None:
            ruled = RuledTables(application.target, application.tables, application.rewrites)
            application.run_edited(decision.edited, decision.decided_by)
            ruled.settle()
        elif captured.problem is not None:
            raise RefusedError(captured.problem)
        elif not start_over(application) and self._is_free(application, captured, event):
            ruled = RuledTables(application.target, application.tables, application.rewrites)
            application.run()
            ruled.settle()

    def _is_free(
        self, application: Application, captured: CapturedDdl, event: CapturedEvent
    ) -> bool:
        """Refuse what is about a parked table, unless it drops that, which ends the parking.

        False: it is skipped anyway.
        """
        target = application.target
        parked = target.release_interrupted()
        if not parked or (event.kind == "start" and event.tag in _EXTENSION):
            return True
        concern = application.concern()
        failed = {name for name, is_copied in parked.items() if not is_copied}
        # A table that is being copied cannot be dropped either.
        ended = self._find_ended(application, concern.dropped & failed)
        kept = parked.keys() - ended
        waiting = (concern.tables | concern.parents) & kept
        if waiting and application.pass_over():
            return False
        check_parked(parked, waiting)
        for name in ended:
            end_parking(target.connection, captured.source.source_id, name)
        return True

    def _find_ended(
        self, application: Application, dropped: Collection[TableName]
    ) -> frozenset[TableName]:
        """Return those of some parked tables whose parking ends when they are dropped.

        DDL that waits with others too would make such a table again when its turn comes.
        """
        target = application.target
        groups = {name: find_group(target.connection, target.source_id, name) for name in dropped}
        return frozenset(
            name
            for name, group in groups.items()
            if group.group_id is None or set(group.tables) <= groups.keys()
        )

    def _stopped(
        self, application: Application, captured: CapturedDdl, event: CapturedEvent, reason: str
    ) -> StatementStopped:
        name = captured.source.name
        what = f"{event.tag}{_about(event)}"
        return StatementStopped(
            f'source "{name}": {what} at {captured.commit_lsn} cannot be applied: {reason}',
            hint=f"{command('ddl', 'pending', name)} shows the statement; settle it with"
            " pgrepl ddl edit, retry or skip.",
            original=application.original,
            remapped=application.remapped,
            tables=application.concern().tables,
        )


def _newest(tables: Sequence[TableDefinition]) -> Sequence[TableDefinition]:
    """Return each table once, as it was last."""
    return list({table.key: table for table in tables}.values())


def _about(event: CapturedEvent) -> str:
    named = [item for item in event.objects if item.schema and item.name]
    return f" of {shown_name(named[-1].schema or '', named[-1].name or '')}" if named else ""
