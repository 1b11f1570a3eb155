"""What pgrepl made on a source: the slot, and the capture of DDL if it is installed."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import errors
from psycopg.rows import scalar_row
from psycopg.sql import SQL, Identifier

from pgrepl.drop.report import DropReport, Item, Outcome
from pgrepl.dsn import Endpoint, Side
from pgrepl.errors import AlreadyRunning, SourceError
from pgrepl.failpoint import reach
from pgrepl.identity import identify
from pgrepl.postgres import Connection, connect
from pgrepl.slot import PLUGIN, drop_slot
from pgrepl.source_state import SourceRow
from pgrepl.sqlstate import translated
from pgrepl.terminal import command

__all__ = ["SourceSide", "check_idle", "check_same", "clear_source", "look_at_source"]

_STAGE = "drop"
_SCHEMA = "pgrepl"


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What stands on a source."""

    has_slot: bool
    #: Who streams from the slot at this moment.
    active_pid: int | None
    #: Slots of others in the same database that may live on what the triggers write.
    other_slots: tuple[str, ...]
    event_triggers: tuple[str, ...]
    has_schema: bool

    def items(self, slot: str, *, is_ours: bool) -> list[Item]:
        """Return what would be removed, and what not."""
        found: list[Item] = []
        if self.has_slot and is_ours:
            found.append(Item(Side.SOURCE, "slot", slot, "found"))
        elif self.has_slot:
            found.append(Item(Side.SOURCE, "slot", slot, "kept", "this target did not make it"))
        capture = [("event trigger", name) for name in self.event_triggers]
        capture += [("schema", _SCHEMA)] * self.has_schema
        reason = self.reason_to_keep_capture(slot, is_ours=is_ours)
        outcome: Outcome = "kept" if reason else "found"
        found += [Item(Side.SOURCE, kind, name, outcome, reason) for kind, name in capture]
        return found

    def reason_to_keep_capture(self, slot: str, *, is_ours: bool) -> str | None:
        """Say who else may need the capture of DDL in this database."""
        others = self.other_slots if is_ours or not self.has_slot else (slot, *self.other_slots)
        if not others:
            return None
        return f"other slots of this database may need it: {', '.join(others)}"


def look_at_source(connection: Connection, endpoint: Endpoint, slot: str) -> SourceSide:
    """Read what is there, by the catalogue alone."""
    with (
        translated(endpoint, "cannot look for what pgrepl made"),
        connection.cursor(row_factory=scalar_row) as cursor,
    ):
        slots = connection.execute(
            "select slot_name, active_pid from pg_replication_slots"
            " where plugin = %s and database = current_database() order by 1",
            (PLUGIN,),
        ).fetchall()
        triggers = cursor.execute(
            "select evtname from pg_event_trigger where evtname ^@ 'pgrepl_' order by 1"
        ).fetchall()
        has_schema = cursor.execute(
            "select exists (select from pg_namespace where nspname = %s)", (_SCHEMA,)
        ).fetchone()
    active: dict[str, int | None] = dict(slots)
    return SourceSide(
        has_slot=slot in active,
        active_pid=active.pop(slot, None),
        other_slots=tuple(active),
        event_triggers=tuple(triggers),
        has_schema=bool(has_schema),
    )


def check_same(endpoint: Endpoint, row: SourceRow) -> None:
    """Refuse to touch another database than the one that was copied.

    Raises
    ------
    SourceError
        when the DSN leads elsewhere by now.

    """
    identity = identify(endpoint, _STAGE)
    if (identity.system_identifier, identity.dbname) != (row.system_identifier, row.dbname):
        raise SourceError(
            f"{endpoint} is another database than the one that was copied; nothing was touched"
            " there",
            hint="Correct the DSN; if the database copied is gone for good, add --source-is-gone.",
        )


def check_idle(endpoint: Endpoint, side: SourceSide, slot: str) -> None:
    """Refuse to pull a slot away from under a receiver.

    Raises
    ------
    AlreadyRunning
        naming the walsender.

    """
    if side.active_pid is not None:
        raise AlreadyRunning(
            f'{endpoint}: slot "{slot}" is in use by pid {side.active_pid}',
            hint=f"Stop {command('receive', endpoint.name)} first; nothing was touched.",
        )


def clear_source(endpoint: Endpoint, slot: str, report: DropReport, *, is_ours: bool) -> None:
    """Drop slot, triggers and schema."""
    with connect(endpoint, _STAGE) as connection:
        side = look_at_source(connection, endpoint, slot)
        reason = side.reason_to_keep_capture(slot, is_ours=is_ours)
        if is_ours:
            check_idle(endpoint, side, slot)
        # The slot first: it holds WAL back, and the rest may need a superuser.
        if is_ours and drop_slot(connection, endpoint, slot):
            report.removed(Side.SOURCE, "slot", slot)
        elif side.has_slot and not is_ours:
            report.kept(Side.SOURCE, "slot", "this target did not make it", slot)
        reach("drop.slot_dropped")
        if reason is None:
            _remove_capture(connection, endpoint, side, report)
        else:
            report.kept(Side.SOURCE, "event trigger", reason, *side.event_triggers)
            report.kept(Side.SOURCE, "schema", reason, *[_SCHEMA] * side.has_schema)


def _remove_capture(
    connection: Connection, endpoint: Endpoint, side: SourceSide, report: DropReport
) -> None:
    """Drop the triggers before the schema that holds their functions, in one transaction."""
    statements = [
        SQL("drop event trigger {}").format(Identifier(name)) for name in side.event_triggers
    ]
    if side.has_schema:
        statements.append(SQL("drop schema {} cascade").format(Identifier(_SCHEMA)))
    try:
        with translated(endpoint, "cannot remove the capture of DDL"), connection.transaction():
            for statement in statements:
                connection.execute(statement)
    except SourceError as exc:
        if isinstance(exc.__cause__, errors.InsufficientPrivilege):
            shown = "; ".join(statement.as_string() for statement in statements)
            exc.hint = f"Run there as a superuser, and then the same command again: {shown}."
        raise
    report.removed(Side.SOURCE, "event trigger", *side.event_triggers)
    report.removed(Side.SOURCE, "schema", *[_SCHEMA] * side.has_schema)
