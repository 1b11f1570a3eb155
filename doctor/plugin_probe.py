"""Try the output plugin on the source, the only way to know that it works there.

A temporary slot loads the plugin, runs its startup callback and waits for running writers, exactly
as the real slot will. Nothing is read from it, and the server drops it when the session ends or
meets an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from psycopg import Error, errors

from pgrepl.config.model import Plugin
from pgrepl.postgres.connect import Connection

__all__ = ["PATIENCE_S", "PluginState", "Probe", "probe_plugin"]

#: Long enough for ordinary transactions to end, short enough for a person who waits.
PATIENCE_S = 3


class PluginState(Enum):
    """How far the attempt came."""

    USABLE = "usable"
    MISSING = "missing"
    NOT_ALLOWED = "not allowed"
    BLOCKED = "blocked"  # the plugin loaded, then running writers kept the slot waiting
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Probe:
    """What the attempt showed."""

    state: PluginState
    #: wal2json 2.6: numbers as text, so that NaN and Infinity arrive. None when not tried.
    has_text_numbers: bool | None = None
    reason: str = ""


_STATES: dict[type[Error], PluginState] = {
    errors.UndefinedFile: PluginState.MISSING,
    # The role may replicate, which was checked before; what remains is output_plugin_libraries.
    errors.InsufficientPrivilege: PluginState.NOT_ALLOWED,
    errors.QueryCanceled: PluginState.BLOCKED,
}


def probe_plugin(connection: Connection, plugin: Plugin = "wal2json") -> Probe:
    """Make a temporary slot, and ask wal2json for an option of version 2.6."""
    slot = f"pgrepl_doctor_{connection.info.backend_pid}"
    connection.execute("select set_config('statement_timeout', %s, false)", (f"{PATIENCE_S}s",))
    try:
        connection.execute(
            "select pg_create_logical_replication_slot(%s, %s, temporary => true)", (slot, plugin)
        )
    except Error as exc:
        state = _STATES.get(type(exc), PluginState.FAILED)
        return Probe(state, reason=exc.diag.message_primary or "")
    # pgoutput prints all numbers as text.
    has_text_numbers = plugin == "pgoutput" or _has_text_numbers(connection, slot)
    return Probe(PluginState.USABLE, has_text_numbers=has_text_numbers)


def _has_text_numbers(connection: Connection, slot: str) -> bool | None:
    try:
        connection.execute(
            "select from pg_logical_slot_peek_changes(%s, null, 1,"
            " 'format-version', '2', 'numeric-data-types-as-string', '1')",
            (slot,),
        )
    except errors.InvalidParameterValue:
        return False
    except errors.QueryCanceled:
        return None
    return True
