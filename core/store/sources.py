"""The rows of ``replication.source`` and ``replication.target_schema``.

Nothing but the target holds state. Whoever starts reads it here and goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = [
    "SourceRow",
    "SourceState",
    "add_source",
    "add_target_schema",
    "advance_origin",
    "create_origin",
    "find_source",
    "find_sources",
    "follow_timeline",
    "has_sources",
    "lock_sources",
    "make_origin",
    "move_schema",
    "read_options",
    "read_patterns",
    "read_schema_places",
    "read_slots",
    "read_target_schemas",
    "read_version",
    "record_patterns",
    "record_version",
    "remove_source",
    "remove_target_schemas",
    "set_copying",
    "set_creating",
    "set_plugin",
    "set_streaming",
    "take_on_server",
    "take_target_schemas",
    "write_options",
]

SourceState = Literal["creating", "copying", "streaming"]
"""How far a source is; only basebackup sets it.

``creating``: recorded before its slot is made, and again when what there is of it is dropped.
``copying``: the slot and the schema are there, rows are copied, in this run or the next.
``streaming``: everything is copied; a receiver may start, and replay.
"""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source as the target knows it."""

    source_id: int
    name: str
    slot: str
    dbname: str
    system_identifier: int
    timeline: int
    state: SourceState
    consistent_point: Lsn | None


def find_source(connection: Connection, name: str) -> SourceRow | None:
    """Return the source of this name, or None when nothing of it was ever copied."""
    with connection.cursor(row_factory=class_row(SourceRow)) as cursor:
        return cursor.execute(
            "select source_id, name, slot, dbname, system_identifier, timeline, state,"
            " consistent_point from replication.source where name = %s",
            (name,),
        ).fetchone()


def find_sources(connection: Connection, names: Iterable[str]) -> Sequence[SourceRow]:
    """Return those of the named sources that the target knows."""
    with connection.cursor(row_factory=class_row(SourceRow)) as cursor:
        return cursor.execute(
            "select source_id, name, slot, dbname, system_identifier, timeline, state,"
            " consistent_point from replication.source where name = any (%s) order by source_id",
            (list(names),),
        ).fetchall()


def read_slots(connection: Connection) -> Mapping[str, str]:
    """Return the slot of each source."""
    return dict(connection.execute("select name, slot from replication.source").fetchall())


def add_source(
    connection: Connection,
    *,
    name: str,
    slot: str,
    dbname: str,
    system_identifier: int,
    timeline: int,
    plugin: str = "wal2json",
) -> int:
    """Record a source before anything of it is made, and return its number."""
    ((source_id,),) = connection.execute(
        "insert into replication.source (name, slot, dbname, system_identifier, timeline, plugin)"
        " values (%s, %s, %s, %s, %s, %s) returning source_id",
        (name, slot, dbname, system_identifier, timeline, plugin),
    ).fetchall()
    return int(source_id)


def follow_timeline(connection: Connection, source_id: int, timeline: int, end: Lsn) -> None:
    """Record that a source failed over, and which copies may hold what it lost.

    Those are the tables that were copied after the old timeline ended, and those whose resync is
    under way: nobody knows what it has read there.
    """
    connection.execute(
        "update replication.source_table t set resync_reason = coalesce(resync_reason,"
        " 'it was copied on a timeline that the source has left') where source_id = %s"
        " and (start_lsn > %s or exists (select from replication.resync r where"
        " r.source_id = t.source_id and r.schema_name = t.schema_name"
        " and r.table_name = t.table_name and r.state <> 'requested'))",
        (source_id, end),
    )
    connection.execute(
        "update replication.source set timeline = %s where source_id = %s", (timeline, source_id)
    )


def record_version(connection: Connection, source_id: int, version: int | None) -> None:
    """Record which version the server has that is received; None: it is not known."""
    connection.execute(
        "update replication.source set server_version = %s"
        " where source_id = %s and server_version is distinct from %s",
        (version, source_id, version),
    )


def read_version(connection: Connection, source_id: int) -> int | None:
    """Return which version the server had that was received last; None: it is not known."""
    ((version,),) = connection.execute(
        "select server_version from replication.source where source_id = %s", (source_id,)
    ).fetchall()
    return None if version is None else int(version)


def take_on_server(
    connection: Connection, source_id: int, system_identifier: int, timeline: int
) -> None:
    """Record that a source is another server now, made of the one before by pg_upgrade."""
    connection.execute(
        "update replication.source set system_identifier = %s, timeline = %s where source_id = %s",
        (system_identifier, timeline, source_id),
    )


def make_origin(connection: Connection, row: SourceRow) -> Lsn | None:
    """Make the replication origin of a source, where the target recorded that it stands.

    Returns where that is; None when there is one that has a position, which is left alone.
    """
    ((progress,),) = connection.execute(
        "select pg_replication_origin_progress(roname, true) from pg_replication_origin"
        " where roname = %(slot)s union all select null order by 1 limit 1",
        {"slot": row.slot},
    ).fetchall()
    if progress is not None:
        return None
    create_origin(connection, row.slot)
    reach("adopt.origin_created")
    ((position,),) = connection.execute(
        "select coalesce(p.received_lsn, s.consistent_point) from replication.source s"
        " left join replication.receive_progress p using (source_id) where s.source_id = %s",
        (row.source_id,),
    ).fetchall()
    connection.execute("select pg_replication_origin_advance(%s, %s)", (row.slot, position))
    return Lsn(position)


def create_origin(connection: Connection, slot: str) -> None:
    """Create a replication origin, if it does not exist."""
    connection.execute(
        "select pg_replication_origin_create(%(name)s)"
        " where not exists (select from pg_replication_origin where roname = %(name)s)",
        {"name": slot},
    )


def set_plugin(connection: Connection, name: str, plugin: str) -> None:
    """Record which output plugin the slot of a source has now."""
    connection.execute("update replication.source set plugin = %s where name = %s", (plugin, name))


def set_creating(connection: Connection, source_id: int) -> None:
    """Forget the slot: the copy of the source starts over."""
    connection.execute(
        "update replication.source set state = 'creating', consistent_point = null"
        " where source_id = %s",
        (source_id,),
    )


def set_copying(connection: Connection, source_id: int, consistent_point: Lsn) -> None:
    """Record the slot's consistent point: from now on the slot is worth keeping."""
    connection.execute(
        "update replication.source set state = 'copying', consistent_point = %s"
        " where source_id = %s",
        (consistent_point, source_id),
    )
    # It is there again, whatever became of its removal.
    connection.execute(
        "delete from replication.failure where source_id = %s and stage = 'drop'", (source_id,)
    )


def set_streaming(connection: Connection, source_id: int) -> None:
    """Let a receiver start."""
    connection.execute(
        "update replication.source set state = 'streaming' where source_id = %s", (source_id,)
    )


def read_target_schemas(connection: Connection, source_id: int) -> dict[str, str]:
    """Return the schemas that pgrepl made for a source: source schema to target schema."""
    rows = connection.execute(
        "select source_schema, target_schema from replication.target_schema where source_id = %s",
        (source_id,),
    )
    return dict(rows.fetchall())


def add_target_schema(
    connection: Connection, source_id: int, source_schema: str, target_schema: str
) -> None:
    """Record a schema that pgrepl makes for a source."""
    connection.execute(
        "insert into replication.target_schema (target_schema, source_id, source_schema)"
        " values (%s, %s, %s)",
        (target_schema, source_id, source_schema),
    )


def remove_target_schemas(
    connection: Connection, source_id: int, target_schemas: Iterable[str]
) -> None:
    """Forget schemas that do not exist any more."""
    connection.execute(
        "delete from replication.target_schema where source_id = %s and target_schema = any (%s)",
        (source_id, list(target_schemas)),
    )


def take_target_schemas(connection: Connection, source_id: int) -> Sequence[str]:
    """Forget all schemas that pgrepl made for a source, and return them: they are to be dropped."""
    rows = connection.execute(
        "delete from replication.target_schema where source_id = %s returning target_schema",
        (source_id,),
    )
    return [schema for (schema,) in rows]


def write_options(connection: Connection, source_id: int, options: Mapping[str, object]) -> None:
    """Record what the copy that begins is asked for."""
    connection.execute(
        "update replication.source set copy_options = %s where source_id = %s",
        (Jsonb(dict(options)), source_id),
    )


def read_options(connection: Connection, source_id: int) -> Mapping[str, object] | None:
    """Return what the copy was asked for, None when an older pgrepl began it."""
    ((options,),) = connection.execute(
        "select copy_options from replication.source where source_id = %s", (source_id,)
    ).fetchall()
    return options  # type: ignore[no-any-return]  # JSON


def record_patterns(
    connection: Connection, source_id: int, *, include: Sequence[str], exclude: Sequence[str]
) -> None:
    """Record which tables the receiver takes in that starts now."""
    patterns = Jsonb({"tables": list(include), "exclude": list(exclude)})
    connection.execute(
        "update replication.source set receive_patterns = %s"
        " where source_id = %s and receive_patterns is distinct from %s",
        (patterns, source_id, patterns),
    )


def read_patterns(connection: Connection, source_id: int) -> Mapping[str, Sequence[str]] | None:
    """Return which tables the receiver takes in that runs, or ran last; None: it is not known."""
    ((patterns,),) = connection.execute(
        "select receive_patterns from replication.source where source_id = %s", (source_id,)
    ).fetchall()
    return patterns  # type: ignore[no-any-return]  # JSON


def advance_origin(connection: Connection, source_id: int) -> None:
    """Set the replication origin of a source to where its slot began."""
    connection.execute(
        "select pg_replication_origin_advance(slot, consistent_point)"
        " from replication.source where source_id = %s",
        (source_id,),
    )


def remove_source(connection: Connection, source_id: int) -> None:
    """Delete every row about a source that refers to it."""
    connection.execute("delete from replication.source where source_id = %s", (source_id,))


def lock_sources(connection: Connection) -> None:
    """Keep others from adding a source until the open transaction ends."""
    connection.execute("lock table replication.source in access exclusive mode")


def has_sources(connection: Connection) -> bool:
    """Whether the target knows any source."""
    ((is_any,),) = connection.execute("select exists (select from replication.source)").fetchall()
    return bool(is_any)


def read_schema_places(connection: Connection) -> dict[tuple[str, str], str]:
    """Return where the schemas of sources are: source and schema to target schema."""
    rows = connection.execute(
        "select s.name, t.source_schema, t.target_schema"
        " from replication.target_schema t join replication.source s using (source_id)"
    )
    return {(source, schema): target for source, schema, target in rows.fetchall()}


def move_schema(there: str, wanted: str) -> sql.Composed:
    """Return one statement that gives a target schema another name, and records that."""
    both = sql.SQL(
        "BEGIN ALTER SCHEMA {} RENAME TO {}; UPDATE replication.target_schema"
        " SET target_schema = {} WHERE target_schema = {}; END"
    ).format(sql.Identifier(there), sql.Identifier(wanted), sql.Literal(wanted), sql.Literal(there))
    return sql.SQL("DO {}").format(sql.Literal(both.as_string(None)))
