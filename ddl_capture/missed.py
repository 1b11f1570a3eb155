"""What the source changed while nobody captured it: found by comparing both sides' tables.

A table whose copy is older than the capture, or than the last time that it was switched off, may
have another structure on the source by now, and no row of the log says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from pgrepl.catalog.names import extension_schemas
from pgrepl.catalog.tables import read_tables
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.config.rules import Rules
from pgrepl.ddl_capture.apply.statement.qualify import make_map
from pgrepl.ddl_capture.apply.structure.differences import compare_tables
from pgrepl.ddl_capture.apply.target_catalog import read_definitions, read_members
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.omission import on_target
from pgrepl.ddl_capture.source import CaptureStatus
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.ddl_journal import read_known
from pgrepl.store.migrations import read_version
from pgrepl.store.progress.shard_progress import read_least_applied, read_passed
from pgrepl.store.sources import SourceRow, find_source, read_target_schemas
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import read_source_tables
from pgrepl.syntax.remap import SchemaMap

__all__ = ["MissedDdl", "find_missed", "is_behind", "read_names"]

_STAGE = "ddl"


@dataclass(frozen=True, slots=True)
class MissedDdl:
    """Tables that may have changed unseen, compared."""

    #: How many copies are older than the capture.
    table_count: int
    #: Whether captured DDL is still on its way: it may be what makes a difference.
    is_behind: bool
    #: What differs, a line each.
    differences: Sequence[str]


def find_missed(config: Config, source: SourceConfig, status: CaptureStatus) -> MissedDdl | None:
    """Compare the tables whose DDL may have gone unseen; None when there is no such table.

    Raises
    ------
    SourceError, TargetError
        when a side cannot be asked.

    """
    endpoint = config.target.endpoint
    with connect(endpoint, _STAGE) as target, translated(endpoint, "cannot compare the tables"):
        row = find_source(target, source.name) if read_version(target) else None
        if row is None or row.state != "streaming":
            return None
        rows = read_source_tables(target, row.source_id)
        copied = {table.key: table.start_lsn for table in rows if table.state == "ready"}
        uncertain = [key for key, start in copied.items() if not _is_covered(start, status)]
        if not uncertain and _is_covered(row.consistent_point, status):
            return None
        with (
            connect(source.endpoint, _STAGE) as source_session,
            translated(source.endpoint, "cannot compare the tables"),
        ):
            is_late = not status.is_outdated and is_behind(source_session, target, row)
            known = {table.key for table in rows}
            new = [key for key in _selected(source_session, source) if key not in known]
            reported = read_definitions(source_session, [*uncertain, *new])
            mine = {key: on_target(table, source.rules) for key, table in reported.items()}
            names = replace(
                read_names(source_session, target, row),
                tables=read_places(target, row.source_id).renamed,
            )
        there = set(_targets(copied, names))
        theirs = read_definitions(target, _targets(uncertain, names))
        found = list(_compare([*uncertain, *new], mine, theirs, names, there))
    return MissedDdl(len(uncertain), is_late, found)


def _is_covered(start: Lsn | None, status: CaptureStatus) -> bool:
    """Whether all DDL since a copy was captured."""
    return (
        status.state == "enabled"
        and status.complete_lsn is not None
        and start is not None
        and start >= status.complete_lsn
    )


def is_behind(
    source_session: Connection,
    target: Connection,
    row: SourceRow,
    first_seen: MutableMapping[int, Lsn] | None = None,
) -> bool:
    """Whether DDL in the log, if there is one that may be read, is not applied yet.

    ``first_seen``: what whoever asks again and again keeps in between. On a source that is written
    to without a pause, replay would never be as far as the source is by then.
    """
    ((is_readable,),) = source_session.execute(
        "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'pgrepl' and c.relname = 'ddl_log'"
        " and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'))"
    ).fetchall()
    if not is_readable:
        return False
    # A row's number is where the WAL stood when it was written.
    ((newest,),) = source_session.execute("select max(id) from pgrepl.ddl_log").fetchall()
    applied = read_least_applied(target, row.source_id) or row.consistent_point or Lsn(0)
    if newest is None:
        return False
    if newest > int(applied):
        return True
    # Its transaction may have committed, and be in the stream, long after that.
    return _is_any_awaited(source_session, target, row, {} if first_seen is None else first_seen)


def _is_any_awaited(
    source_session: Connection,
    target: Connection,
    row: SourceRow,
    first_seen: MutableMapping[int, Lsn],
) -> bool:
    """Whether a transaction that has written to the log of late may still be in the stream.

    One of which the target knows nothing committed before it was seen first.
    """
    rows = source_session.execute(
        "select array_agg(id), case when pg_is_in_recovery() then pg_last_wal_replay_lsn()"
        " else pg_current_wal_insert_lsn() end from pgrepl.ddl_log"
        " where id > %s and stmt_at > now() - interval '1 day' group by xid",
        (int(row.consistent_point or Lsn(0)),),
    ).fetchall()
    ids = [number for numbers, _ in rows for number in numbers]
    known = read_known(target, row.source_id, ids)
    unknown = {min(numbers): head for numbers, head in rows if known.isdisjoint(numbers)}
    passed = read_passed(target, row.source_id) or Lsn(0)
    heads = [first_seen.setdefault(number, head) for number, head in unknown.items()]
    return any(head > passed for head in heads)


def _selected(source_session: Connection, source: SourceConfig) -> Iterator[TableName]:
    """Return the tables that the patterns match today."""
    for table in read_tables(source_session, Rules()):
        is_selected = source.selection.matches(table.root_schema, table.root_name)
        if is_selected and not table.is_unlogged:
            yield table.key


def read_names(source_session: Connection, target: Connection, row: SourceRow) -> SchemaMap:
    """Return what names of the source are on the target, while tables have their own there."""
    extensions = extension_schemas(source_session)
    schemas = read_target_schemas(target, row.source_id)
    return make_map(schemas, extensions, read_members(target, extensions))


def _targets(keys: Iterable[TableName], names: SchemaMap) -> list[TableName]:
    return [names.place(schema, name) for schema, name in keys if schema in names.schemas]


def _compare(
    keys: Sequence[TableName],
    mine: Mapping[TableName, TableDefinition],
    theirs: Mapping[TableName, TableDefinition],
    names: SchemaMap,
    there: set[TableName],
) -> Iterator[str]:
    for key in keys:
        shown = shown_name(*key)
        target = theirs.get(names.place(*key)) if key[0] in names.schemas else None
        if key not in mine:
            yield f"{shown}: the source has no such table any more"
        elif target is None:
            yield f"{shown}: the target has no such table"
        else:
            for difference in compare_tables(mine[key], target, names, there.__contains__):
                yield f"{shown}: {difference}"
