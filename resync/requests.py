"""Note which tables a run copies, and in which way, before it touches any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import shown_name
from pgrepl.errors import UsageError
from pgrepl.postgres.advisory_locks import resync_run_lock, take_lock
from pgrepl.resync.changed import TablesChangedError
from pgrepl.resync.choice import TableFacts, choose_way
from pgrepl.resync.chunked import find_obstacle
from pgrepl.resync.overtaken import overtaken
from pgrepl.resync.sides import Sides
from pgrepl.resync.tables import Choosing
from pgrepl.store.parked import find_kind
from pgrepl.store.resync.running_resyncs import ResyncRow, Way, find_resync, request_resync
from pgrepl.store.tables.source_tables import hold_names, read_conditions

__all__ = ["Requests"]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a table is to be copied, and what an earlier run began."""

    table: SourceTable
    way: Way
    facts: TableFacts
    begun: ResyncRow | None


class Requests:
    """Notes the tables of one run."""

    def __init__(self, sides: Sides, choosing: Choosing) -> None:
        """Note nothing yet."""
        self._sides = sides
        self._target = sides.target
        self._choosing = choosing

    def make(self, tables: Sequence[SourceTable]) -> dict[tuple[str, str], ResyncRow]:
        """Note all tables, or none: what one of them refuses leaves no trace of the others.

        Raises
        ------
        TablesChangedError
            when DDL was applied since the tables were chosen.
        UsageError
            when one cannot be copied in the way asked for.

        """
        plans = self._make_plans(tables)
        with self._target.transaction():
            self._check_names(tables)
            return {plan.table.key: self._request(plan) for plan in plans}

    def _check_names(self, tables: Sequence[SourceTable]) -> None:
        """Make sure that the copies have these names until the transaction ends.

        Raises
        ------
        TablesChangedError
            when replay has applied DDL since the tables were chosen.

        """
        found = hold_names(self._target, self._sides.source_id, [t.key for t in tables])
        for table in tables:
            if not self._choosing.is_still_called(table, found):
                error = overtaken(self._sides.source.endpoint, table)
                raise TablesChangedError(tables, error) from error

    def _make_plans(self, tables: Sequence[SourceTable]) -> Sequence[_Plan]:
        try:
            return [self._plan(table) for table in tables]
        except UsageError:
            # Of a table that is another one by now nothing can be said.
            self._check_names(tables)
            for table in self._choosing.find_changed(tables):
                error = overtaken(self._sides.source.endpoint, table)
                raise TablesChangedError(tables, error) from error
            raise

    def _plan(self, table: SourceTable) -> _Plan:
        """Choose in which way a table is copied, or goes on to be."""
        source_id = self._sides.source_id
        begun = find_resync(self._target, source_id, table.key)
        if begun is not None:
            # Whoever began it may have it in hand still, by another name that the table had.
            take_lock(self._target, resync_run_lock(begun.resync_id))
        ((size,),) = self._sides.source_session.execute(
            "select coalesce(pg_table_size(%s::regclass), 0)", (table.oid,)
        ).fetchall()
        condition = read_conditions(self._target, source_id).get(table.key)
        facts = TableFacts(
            name=shown_name(*table.key),
            size_bytes=size,
            is_first=self._choosing.is_first(table),
            is_live=condition is not None
            and condition.state == "ready"
            # What waits for a lock goes on by itself.
            and find_kind(self._target, source_id, table.key) in (None, "locked"),
            chunk_obstacle="its copy has other columns"
            if self._choosing.is_remade(table)
            else find_obstacle(self._sides.source_session, self._target, self._sides.row, table),
            begun=None if begun is None else begun.way,
        )
        return _Plan(table, choose_way(facts, self._sides.options.way).way, facts, begun)

    def _request(self, plan: _Plan) -> ResyncRow:
        """Record that a table is copied, in which way, and how far an earlier run came."""
        source_id, table, way, begun = self._sides.source_id, plan.table, plan.way, plan.begun
        row = request_resync(
            self._target,
            source_id,
            table.key,
            oid=table.oid,
            way=way,
            is_first=plan.facts.is_first,
            max_rate=self._sides.options.max_rate,
            row_estimate=table.row_estimate,
            byte_estimate=plan.facts.size_bytes,
            rules=table.rules,
        )
        take_lock(self._target, resync_run_lock(row.resync_id))
        is_other = begun is not None and (
            (begun.way, begun.source_oid, begun.rules) != (way, table.oid, table.rules)
        )
        if is_other or (
            row.state == "catching up"
            and row.way == "whole"
            and find_kind(self._target, source_id, table.key) != "resync"
        ):
            # What waited could not be applied to that copy, or was: this is another resync.
            return replace(row, way=way, state="requested")
        return row
