"""What a captured statement meets in schema ``replication``, asked once for each statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog
from pgrepl.store.ddl_journal import Decision, DecisionKind

__all__ = ["Standing", "read_standing"]

_QUERY: LiteralString = """
    select p.log_id is not null, p.decision, p.edited, p.decided_by,
           exists (select from replication.resync r
                    where r.source_id = w.source_id and r.is_first)
           or exists (select from replication.source_table t
                       join replication.resync_due d using (source_id, schema_name, table_name)
                      where t.source_id = w.source_id and t.state = 'pending'),
           exists (select from replication.parked_table t where t.source_id = w.source_id),
           exists (select from replication.target_table t where t.source_id = w.source_id)
      from (select %(source_id)s::integer, %(log_id)s::bigint) as w (source_id, log_id)
      left join replication.ddl_pending p using (source_id, log_id)
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand when a statement is about to be applied."""

    #: Whether it waited before, and what a person decided about it.
    was_pending: bool = False
    decision: Decision | None = None
    #: Whether tables of the source are made by their first copy, or will be.
    is_any_joining: bool = False
    is_any_parked: bool = False
    #: Whether copies of the source are not called like their tables.
    is_any_named: bool = False


def read_standing(connection: Connection, source_id: int, log_id: int) -> Standing:
    """Read it; what is not there then is not looked for again while the statement is applied."""
    with connection.cursor() as cursor:
        ask_catalog(cursor, _QUERY, {"source_id": source_id, "log_id": log_id})
        ((was_pending, kind, edited, decided_by, *is_any),) = cursor
    return Standing(was_pending, _decision(kind, edited, decided_by), *is_any)


def _decision(
    kind: DecisionKind | None, edited: str | None, decided_by: str | None
) -> Decision | None:
    return None if kind is None else Decision(kind, edited, decided_by)
