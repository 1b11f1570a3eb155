"""What pgrepl made on a source: the slot, and the capture of DDL if it is installed.

The role that runs pgrepl may drop its slot and switch the capture off; removing the capture takes a
superuser. What cannot be done is found out before anything is touched on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL, Composed, Identifier, Literal

from pgrepl.catalog.names import may_call
from pgrepl.catalog.slots import PLUGINS, drop_slot, read_slots
from pgrepl.config.dsn import Endpoint, Side
from pgrepl.ddl_capture.scripts import FUNCTIONS, TABLES
from pgrepl.drop.publications import (
    PublicationSide,
    drop_publications,
    look_at_publications,
)
from pgrepl.drop.report import DropReport, Item, Outcome
from pgrepl.errors import AlreadyRunning, SourceError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.server import identify
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.sources import SourceRow
from pgrepl.terminal import command

__all__ = [
    "SourceSide",
    "check_idle",
    "check_privileges",
    "check_same",
    "clear_source",
    "look_at_source",
    "superuser_script",
]

_STAGE = "drop"
_SCHEMA = "pgrepl"
_LOCK_TIMEOUT = "5s"


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What stands on a source."""

    has_slot: bool
    #: Who streams from the slot at this moment.
    active_pid: int | None
    #: Slots of others in the same database that may live on what the triggers write.
    other_slots: tuple[str, ...]
    event_triggers: tuple[str, ...]
    #: The schema of the capture, and its tables and functions as SQL names them.
    has_schema: bool
    tables: tuple[str, ...]
    functions: tuple[str, ...]
    #: What else is in that schema.
    strangers: tuple[str, ...]
    #: Whether some of the triggers are enabled.
    is_capturing: bool
    #: What the role may do: anything, drop slots, switch the capture off.
    role: str
    is_superuser: bool
    may_replicate: bool
    may_switch: bool
    publications: PublicationSide

    @property
    def has_capture(self) -> bool:
        """Whether anything of the capture is there."""
        return bool(self.event_triggers) or self.has_schema

    def items(self, slot: str, *, is_ours: bool) -> list[Item]:
        """Return what would be removed, and what not."""
        found: list[Item] = []
        if self.has_slot and is_ours:
            found.append(Item(Side.SOURCE, "slot", slot, "found"))
        elif self.has_slot:
            found.append(Item(Side.SOURCE, "slot", slot, "kept", "this target did not make it"))
        if is_ours:
            own = self.publications
            found += [Item(Side.SOURCE, "publication", name, "found") for name in own.names]
            found += [
                Item(Side.SOURCE, "event trigger", name, "found") for name in own.event_triggers
            ]
        reason = self.reason_to_keep_capture(slot, is_ours=is_ours)
        outcome: Outcome = "kept" if reason else "found"
        capture = [("event trigger", name) for name in self.event_triggers]
        capture += [(kind, name) for kind, name in self.in_schema]
        found += [Item(Side.SOURCE, kind, name, outcome, reason) for kind, name in capture]
        return found

    @property
    def in_schema(self) -> list[tuple[str, str]]:
        """Return what goes besides the triggers: the schema, or what is pgrepl's in it."""
        if not self.has_schema:
            return []
        if not self.strangers:
            return [("schema", _SCHEMA)]
        return [("table", name) for name in self.tables]

    def reason_to_keep_capture(self, slot: str, *, is_ours: bool) -> str | None:
        """Say who else may need the capture of DDL in this database."""
        others = self.other_slots if is_ours or not self.has_slot else (slot, *self.other_slots)
        if not others:
            return None
        return f"other slots of this database may need it: {', '.join(others)}"


def look_at_source(connection: Connection, endpoint: Endpoint, slot: str) -> SourceSide:
    """Read what is there, by the catalogue alone."""
    with translated(endpoint, "cannot look for what pgrepl made"):
        slots = read_slots(connection)
        triggers = connection.execute(
            "select t.evtname, t.evtenabled <> 'D' from pg_event_trigger t"
            " join pg_proc p on p.oid = t.evtfoid join pg_namespace n on n.oid = p.pronamespace"
            " where t.evtname ^@ 'pgrepl_' and not t.evtname ^@ 'pgrepl_publications_'"
            " and n.nspname = %s order by 1",
            (_SCHEMA,),
        ).fetchall()
        objects = connection.execute(
            load_query("pgrepl.drop", "capture_objects"),
            {"schema": _SCHEMA, "tables": list(TABLES), "functions": list(FUNCTIONS)},
        ).fetchall()
        ((is_superuser, may_replicate),) = connection.execute(
            "select rolsuper, rolsuper or rolreplication from pg_roles where rolname = current_user"
        ).fetchall()
        may_switch = may_call(connection, _SCHEMA, "switch", 1)
        publications = look_at_publications(connection, slot)
    active = {
        found.name: found.active_pid
        for found in slots
        if found.plugin in PLUGINS and not found.is_temporary
    }
    return SourceSide(
        has_slot=slot in active,
        active_pid=active.pop(slot, None),
        other_slots=tuple(active),
        event_triggers=tuple(name for name, _ in triggers),
        has_schema=any(kind != "stranger" for kind, _ in objects),
        tables=tuple(name for kind, name in objects if kind == "table"),
        functions=tuple(name for kind, name in objects if kind == "function"),
        strangers=tuple(name for kind, name in objects if kind == "stranger"),
        is_capturing=any(is_enabled for _, is_enabled in triggers),
        role=connection.info.user,
        is_superuser=bool(is_superuser),
        may_replicate=bool(may_replicate),
        may_switch=may_switch,
        publications=publications,
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
            hint="Correct the DSN; if the database copied does not exist any more, add"
            " --source-is-gone.",
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


def check_privileges(endpoint: Endpoint, side: SourceSide, slot: str, *, is_ours: bool) -> None:
    """Refuse to begin what this role cannot bring to a harmless end.

    Raises
    ------
    SourceError
        when the slot would stay, or the capture would stay and go on.

    """
    if is_ours and side.has_slot and not side.may_replicate:
        what = f'drop slot "{slot}"'
    elif _is_left(side, slot, is_ours=is_ours) and side.is_capturing and not side.may_switch:
        what = "switch the capture of DDL off"
    else:
        return
    raise SourceError(
        f'{endpoint}: role "{side.role}" may not {what}; nothing was touched',
        hint=f"Let a superuser run what this prints: {command('drop', endpoint.name, '--sql')};"
        " then run the same command again.",
    )


def superuser_script(side: SourceSide, slot: str, *, is_ours: bool) -> list[list[Composed | SQL]]:
    """Return the statements for a superuser, by transaction: what this role may not do."""
    script: list[list[Composed | SQL]] = []
    if is_ours and side.has_slot and not side.may_replicate:
        script.append([SQL("select pg_drop_replication_slot({})").format(Literal(slot))])
    if is_ours and not side.publications.may_drop:
        script.append(list(side.publications.removal(slot)))
    if _is_left(side, slot, is_ours=is_ours):
        script += _removal(side)
    return script


def _is_left(side: SourceSide, slot: str, *, is_ours: bool) -> bool:
    """Whether the capture should go and this role cannot remove it."""
    is_needed = side.reason_to_keep_capture(slot, is_ours=is_ours) is not None
    return side.has_capture and not is_needed and not side.is_superuser


def _removal(side: SourceSide) -> list[list[Composed | SQL]]:
    """Return the statements that remove the capture, by transaction.

    The triggers go first: no DDL waits while the schema waits for a transaction that wrote
    into the log.
    """
    script: list[list[Composed | SQL]] = [
        [SQL("drop event trigger {}").format(Identifier(name)) for name in side.event_triggers]
    ]
    if side.has_schema:
        # The server has quoted the names. Nothing of others goes along: no CASCADE.
        named = [("table", name) for name in side.tables]
        named += [("function", name) for name in side.functions]
        script.append(
            [
                SQL("set local lock_timeout = {}").format(Literal(_LOCK_TIMEOUT)),
                *(Composed([SQL(f"drop {kind} "), SQL(name)]) for kind, name in named),
                *[SQL("drop schema {}").format(Identifier(_SCHEMA))] * (not side.strangers),
            ]
        )
    return [statements for statements in script if statements]


def clear_source(endpoint: Endpoint, slot: str, report: DropReport, *, is_ours: bool) -> None:
    """Drop slot, triggers and schema; what only a superuser can remove is switched off."""
    with connect(endpoint, _STAGE) as connection:
        side = look_at_source(connection, endpoint, slot)
        reason = side.reason_to_keep_capture(slot, is_ours=is_ours)
        if is_ours:
            check_idle(endpoint, side, slot)
        # The slot first: it holds WAL back.
        if is_ours and drop_slot(connection, endpoint, slot):
            report.removed(Side.SOURCE, "slot", slot)
        elif side.has_slot and not is_ours:
            report.kept(Side.SOURCE, "slot", "this target did not make it", slot)
        reach("drop.slot_dropped")
        if is_ours and (side.publications.names or side.publications.event_triggers):
            drop_publications(connection, endpoint, slot, report)
            side = look_at_source(connection, endpoint, slot)
        if reason is None and _is_left(side, slot, is_ours=is_ours):
            reason = "it is switched off; only a superuser can remove it"
            _leave_capture(connection, endpoint, side, report)
        elif reason is None:
            _remove_capture(connection, endpoint, _removal(side))
            report.removed(Side.SOURCE, "event trigger", *side.event_triggers)
            for kind, name in side.in_schema:
                report.removed(Side.SOURCE, kind, name)
            return
        report.kept(Side.SOURCE, "event trigger", reason, *side.event_triggers)
        for kind, name in side.in_schema:
            report.kept(Side.SOURCE, kind, reason, name)


def _leave_capture(
    connection: Connection, endpoint: Endpoint, side: SourceSide, report: DropReport
) -> None:
    """Switch the capture off, and say what a superuser has to do."""
    if side.is_capturing:
        with translated(endpoint, "cannot switch the capture of DDL off"):
            connection.execute("select pgrepl.switch(false)")
    report.errors.append(
        SourceError(
            f'{endpoint}: the capture of DDL is switched off, but role "{side.role}" is no'
            " superuser and cannot remove it",
            hint=f"Let a superuser run what this prints: {command('drop', endpoint.name, '--sql')}",
        )
    )


def _remove_capture(
    connection: Connection, endpoint: Endpoint, script: Sequence[Sequence[Composed | SQL]]
) -> None:
    try:
        with translated(endpoint, "cannot remove the capture of DDL"):
            for statements in script:
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement)
                reach("drop.capture_removed")
    except SourceError as exc:
        if isinstance(exc.__cause__, errors.LockNotAvailable):
            exc.hint = (
                "DDL is not captured any more, but a transaction that ran DDL is still open,"
                " perhaps a prepared one; run the same command when it is over."
            )
        raise
