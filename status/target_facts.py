"""Ask the target about sources, in one snapshot. Reads only, and migrates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import LiteralString

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError
from pgrepl.postgres.advisory_locks import find_holder, receive_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.status.facts import TargetFacts
from pgrepl.store.migrations import (
    check_schema_version,
    has_migrations,
    has_step,
    read_version,
)
from pgrepl.store.monitoring.counters import read_batch_counters
from pgrepl.store.monitoring.overview import (
    NEEDED_STEP,
    NEEDED_VERSION,
    count_undecided_ddl,
    read_failures,
    read_shards,
    read_sources,
    read_troubled_tables,
)
from pgrepl.store.pauses import read_pauses
from pgrepl.store.spool.consumers import read_consumers
from pgrepl.store.streams import count_parked_records
from pgrepl.store.tables.copy_work import read_progress

__all__ = ["read_target"]

_PATIENCE_S = 10

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
    if not has_migrations(connection, NEEDED_VERSION) or not has_step(connection, NEEDED_STEP):
        raise SchemaVersionError(
            f'target: schema "replication" has version {version},'
            f' status needs version {NEEDED_VERSION} and step "{NEEDED_STEP}"',
            hint="The next basebackup, receive or replay of this version of pgrepl brings it up"
            " to date.",
        )
    return True


def _read(
    connection: Connection, names: Sequence[str], configured: Sequence[str] | None
) -> Mapping[str, TargetFacts]:
    rows = read_sources(connection, names, besides=configured)
    ids = [row.source_id for row in rows]
    shards = read_shards(connection, ids)
    failures = read_failures(connection, ids)
    pending = count_undecided_ddl(connection, ids)
    sessions: dict[str, int] = dict(connection.execute(_SESSIONS, {}).fetchall())
    ((clock_at,),) = connection.execute("select clock_timestamp()").fetchall()
    tables = read_troubled_tables(connection, ids)
    copied = {table.source_id for table in tables if table.state in ("pending", "copying")}
    batches = read_batch_counters(connection, ids)
    pauses = read_pauses(connection)
    parked_records = count_parked_records(connection)
    consumers = read_consumers(connection, ids)
    return {
        row.name: TargetFacts(
            clock_at=clock_at,
            row=row,
            shards=shards[row.source_id],
            tables=[table for table in tables if table.source_id == row.source_id],
            failures=failures[row.source_id],
            pending_ddl_count=pending.get(row.source_id, 0),
            sessions=sessions,
            batches=batches.get(row.source_id, ()),
            copies=read_progress(connection, row.source_id) if row.source_id in copied else (),
            parked_record_count=parked_records.get(row.source_id, 0),
            is_receiving=find_holder(connection, receive_lock(row.name)) is not None,
            pause=pauses.get(row.source_id),
            consumers=consumers.get(row.source_id, ()),
        )
        for row in rows
    }
