"""What pgrepl made on the target for one source.

``replication.source`` is the record of the slot: as long as the slot may exist, so does the row. It
is made again in state "creating" when everything else of the source goes, so that a run that could
not reach the source leaves exactly what a later run, or a new basebackup, needs to know.
"""

from __future__ import annotations

from psycopg import errors
from psycopg.sql import SQL, Identifier

from pgrepl.catalog.dependents import find_dependents
from pgrepl.catalog.ownership import drop_owner, read_owner
from pgrepl.config.dsn import Endpoint, Side
from pgrepl.drop.report import DropReport, Item
from pgrepl.errors import AlreadyRunning, PgreplError, SourceError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.migrations import check_schema_version, read_version
from pgrepl.store.monitoring.failures import record
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.removal import check_removable
from pgrepl.store.sources import (
    SourceRow,
    add_source,
    find_source,
    has_sources,
    lock_sources,
    read_target_schemas,
    remove_source,
)
from pgrepl.store.spool.spool_rows import count_rows
from pgrepl.terminal import command, counted

__all__ = ["clear_target", "find_row", "forget_source", "look_at_target"]

_SCHEMA = "replication"


def find_row(connection: Connection, endpoint: Endpoint, name: str) -> SourceRow | None:
    """Return what the target knows of the source, and refuse a schema that is not ours to touch."""
    with translated(endpoint, 'cannot read schema "replication"'):
        version = read_version(connection)
        if version == 0:
            return None
        check_schema_version(version)
        return find_source(connection, name)


def look_at_target(connection: Connection, endpoint: Endpoint, row: SourceRow) -> list[Item]:
    """Return what would be removed."""
    with translated(endpoint, "cannot look for what pgrepl made"):
        items = [Item(Side.TARGET, "origin", name, "found") for name in _origins(connection, row)]
        count = count_rows(connection, row.source_id)
        items.append(
            Item(Side.TARGET, "spool and progress", f"{counted(count, 'row')} spooled", "found")
        )
        items += [
            Item(Side.TARGET, "schema", schema, "found")
            for schema in sorted(read_target_schemas(connection, row.source_id).values())
        ]
    return items


def clear_target(
    connection: Connection,
    endpoint: Endpoint,
    row: SourceRow,
    report: DropReport,
    *,
    with_data: bool,
    owner: str,
) -> None:
    """Remove origin, spool and state, and the copies if asked; only the record of the slot stays.

    With the copies goes the role that owned them, if it is pgrepl's and owns nothing else.

    Raises
    ------
    AlreadyRunning
        when a receiver uses the origin; nothing is removed then.
    TargetError
        when others depend on copies that were to go, or have tables beside them; nothing is removed
        then.

    """
    schemas = sorted(read_target_schemas(connection, row.source_id).values())
    with translated(endpoint, f'cannot remove source "{row.name}"'):
        if with_data:
            check_removable(connection, endpoint, row.source_id)
        report.removed(Side.TARGET, "origin", *_drop_origin(connection, endpoint, row))
        reach("drop.origin_dropped")
        with connection.transaction():
            # A task of replay takes its position first and then the tables. Whoever has begun ends
            # before us, whoever comes now waits and finds itself superseded.
            take_positions(connection, row.source_id)
            if with_data and schemas:
                names = SQL(", ").join(map(Identifier, schemas))
                connection.execute(SQL("drop schema if exists {} cascade").format(names))
            _forget(connection, row)
            source_id = add_source(
                connection,
                name=row.name,
                slot=row.slot,
                dbname=row.dbname,
                system_identifier=row.system_identifier,
                timeline=row.timeline,
            )
            record(connection, "drop", source_id, _unfinished(row.name))
    reach("drop.state_removed")
    if with_data:
        report.removed(Side.TARGET, "schema", *schemas)
        _remove_owner(connection, endpoint, owner, report)
    else:
        report.kept(Side.TARGET, "schema", "without --with-data the copies stay", *schemas)
    report.removed(Side.TARGET, "spool and progress", f"of source {row.name}")
    reach("drop.target_cleared")


def _unfinished(name: str) -> PgreplError:
    """Return what stands there as long as the slot may: the rest is not taken for a new source."""
    return SourceError(
        "its removal was begun and is not finished: the slot may still hold WAL back",
        hint=f"Run it again: {command('drop', name)}",
    )


def forget_source(
    connection: Connection, endpoint: Endpoint, name: str, report: DropReport
) -> None:
    """Remove the record of the slot, and with the last source all of pgrepl's state."""
    with translated(endpoint, f'cannot remove source "{name}"'), connection.transaction():
        # A basebackup that begins elsewhere adds its source before or after this, not meanwhile.
        lock_sources(connection)
        row = find_source(connection, name)
        if row is not None:
            _forget(connection, row)
        if has_sources(connection):
            return
        dependents = find_dependents(connection, [_SCHEMA])
        if dependents:
            reason = f"objects of others depend on it: {', '.join(dependents[:5])}"
            report.kept(Side.TARGET, "schema", reason, _SCHEMA)
            return
        connection.execute(SQL("drop schema {} cascade").format(Identifier(_SCHEMA)))
        report.removed(Side.TARGET, "schema", _SCHEMA)


def _remove_owner(
    connection: Connection, endpoint: Endpoint, owner: str, report: DropReport
) -> None:
    with translated(endpoint, f'cannot drop role "{owner}"'):
        role = read_owner(connection, owner)
        if not role.exists or role.is_self or role.is_foreign:
            return
        reason = drop_owner(connection, owner)
    if reason is None:
        report.removed(Side.TARGET, "role", owner)
    else:
        report.kept(Side.TARGET, "role", reason, owner)


def _origins(connection: Connection, row: SourceRow) -> list[str]:
    rows = connection.execute(
        "select roname from pg_replication_origin where roname = %s", (row.slot,)
    )
    return [name for (name,) in rows.fetchall()]


def _drop_origin(connection: Connection, endpoint: Endpoint, row: SourceRow) -> list[str]:
    names = _origins(connection, row)
    try:
        for name in names:
            connection.execute("select pg_replication_origin_drop(%s)", (name,))
    except errors.ObjectInUse as exc:
        raise AlreadyRunning(
            f'{endpoint}: replication origin "{row.slot}" is in use',
            hint=f"Stop {command('receive', row.name)} first; nothing was touched.",
        ) from exc
    return names


def _forget(connection: Connection, row: SourceRow) -> None:
    """Delete every row about a source: by the foreign keys to it, and by its name in histories."""
    remove_source(connection, row.source_id)
    histories = connection.execute(
        "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'replication'::regnamespace and c.relkind = 'r'"
        " and a.attname = 'source' and a.atttypid = 'text'::regtype order by 1"
    ).fetchall()
    for (history,) in histories:
        connection.execute(
            SQL("delete from {} where source = %s").format(Identifier(_SCHEMA, history)),
            (row.name,),
        )
