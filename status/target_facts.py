"""Ask the target about sources, in one snapshot. Reads only, and migrates nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import LiteralString, TypeVar

from psycopg.rows import class_row

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.status.facts import FailureFacts, ShardFacts, TableFacts, TargetFacts, TargetRow
from pgrepl.store.migrations import check_schema_version, read_version

__all__ = ["read_target"]

T = TypeVar("T")

#: What is asked for here stands in the migrations up to this one.
_NEEDED_VERSION = 8

_PATIENCE_S = 10

_SHARDS: LiteralString = """
select source_id, shard, applied_seq, applied_lsn, updated_at
  from replication.shard_progress where source_id = any (%(ids)s) order by source_id, shard
"""
_FAILURES: LiteralString = """
select source_id, stage, at, message, hint
  from replication.failure where source_id = any (%(ids)s) order by source_id, at desc
"""
_PENDING_DDL: LiteralString = """
select source_id, count(*)
  from replication.ddl_pending where source_id = any (%(ids)s) and decision is null
 group by source_id
"""
_SESSIONS: LiteralString = """
select substr(application_name, 8), count(*)
  from pg_stat_activity
 where datname = current_database() and application_name like 'pgrepl-%%'
 group by 1
"""


def read_target(
    endpoint: Endpoint, names: Sequence[str], *, configured: Sequence[str] | None = None
) -> Mapping[str, TargetFacts]:
    """Return what the target knows of the sources of these names; unknown ones are skipped.

    With ``configured`` it tells of every source that is not among those, too.

    Raises
    ------
    TargetError
        when it does not answer, or its schema ``replication`` is none that can be read.

    """
    with (
        connect(endpoint, "status", patience_s=_PATIENCE_S) as connection,
        translated(endpoint, "cannot read the status"),
        connection.transaction(),
    ):
        connection.execute("set transaction isolation level repeatable read, read only")
        return _read(connection, names, configured) if _has_schema(connection) else {}


def _has_schema(connection: Connection) -> bool:
    version = read_version(connection)
    check_schema_version(version)
    if version == 0:
        return False
    ((count,),) = connection.execute(
        "select count(*) from replication.schema_version where version <= %s", (_NEEDED_VERSION,)
    ).fetchall()
    if count < _NEEDED_VERSION:
        raise SchemaVersionError(
            f'target: schema "replication" has version {version},'
            f" status needs version {_NEEDED_VERSION}",
            hint="The next basebackup, receive or replay of this version of pgrepl brings it up"
            " to date.",
        )
    return True


def _read(
    connection: Connection, names: Sequence[str], configured: Sequence[str] | None
) -> Mapping[str, TargetFacts]:
    with connection.cursor(row_factory=class_row(TargetRow)) as cursor:
        query = load_query("pgrepl.status", "target_sources")
        given = {
            "names": list(names),
            # Nothing differs from null.
            "configured": None if configured is None else list(configured),
        }
        rows = cursor.execute(query, given).fetchall()
    ids = [row.source_id for row in rows]
    shards = _by_source(connection, _SHARDS, ids, ShardFacts)
    failures = _by_source(connection, _FAILURES, ids, FailureFacts)
    pending: dict[int, int] = dict(connection.execute(_PENDING_DDL, {"ids": ids}).fetchall())
    sessions: dict[str, int] = dict(connection.execute(_SESSIONS, {}).fetchall())
    ((clock_at,),) = connection.execute("select clock_timestamp()").fetchall()
    with connection.cursor(row_factory=class_row(TableFacts)) as cursor:
        query = load_query("pgrepl.status", "target_tables")
        tables = cursor.execute(query, {"ids": ids}).fetchall()
    return {
        row.name: TargetFacts(
            clock_at=clock_at,
            row=row,
            shards=shards[row.source_id],
            tables=[table for table in tables if table.source_id == row.source_id],
            failures=failures[row.source_id],
            pending_ddl_count=pending.get(row.source_id, 0),
            sessions=sessions,
        )
        for row in rows
    }


def _by_source(
    connection: Connection, query: LiteralString, ids: Sequence[int], kind: type[T]
) -> Mapping[int, Sequence[T]]:
    """Make values of rows whose first column is the source."""
    found: dict[int, list[T]] = defaultdict(list)
    for source_id, *values in connection.execute(query, {"ids": ids}):
        found[source_id].append(kind(*values))
    return found
