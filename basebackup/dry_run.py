"""What a copy would do, for ``--dry-run``. Reads only; nothing anywhere changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from pgrepl.basebackup.preflight import (
    TargetSide,
    check_extensions,
    check_target,
    plan_schema,
    prepare,
)
from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.rows.parts import plan_parts
from pgrepl.basebackup.schema.needed_objects import LeftOut, skipped_as_left_out
from pgrepl.basebackup.schema.plan import Step
from pgrepl.basebackup.snapshot import keep_new_snapshot
from pgrepl.config.model import Config, SourceConfig
from pgrepl.postgres.connect import connect
from pgrepl.store.migrations import read_version
from pgrepl.store.sources import find_source

__all__ = ["CopyPlan", "PlannedTable", "plan_copy"]

#: What one of two jobs copied on a busy machine with two cores, rows of 110 bytes: 28 to 45 MB/s.
BYTES_PER_SECOND = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of a plan."""

    name: str
    target: str
    size_bytes: int
    row_estimate: int
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What a copy would do."""

    source: str
    #: In the order in which they begin.
    tables: Sequence[PlannedTable]
    steps: Sequence[Step]
    left_out: Sequence[LeftOut]
    seconds_estimate: float


def plan_copy(
    config: Config, source: SourceConfig, options: CopyOptions, *, default_jobs: int
) -> CopyPlan:
    """Plan a copy from its beginning.

    Raises
    ------
    PgreplError
        whatever would stop the copy before its data.

    """
    jobs = options.jobs or default_jobs
    keeper = keep_new_snapshot(source.endpoint)
    with closing(keeper.connection), connect(config.target.endpoint, "basebackup") as target:
        preparation = prepare(keeper.connection, source, options)
        tables = preparation.objects.tables
        keeper.lock(tables, options.lock_timeout_s)
        # The schemas of a source that is recorded are its own.
        is_recorded = bool(read_version(target)) and find_source(target, source.name) is not None
        check = check_extensions if is_recorded else check_target
        extensions = check(target, config.target.endpoint, preparation)
        schema = plan_schema(
            source,
            keeper.connection,
            preparation,
            options,
            snapshot=keeper.snapshot,
            target=TargetSide(config.target.endpoint, target, extensions),
        )
        sizes = keeper.sizes(tables)
    parts = plan_parts(tables, sizes, jobs)
    counts: dict[tuple[str, str], int] = {}
    for part in parts:
        key = (part.schema, part.table)
        counts[key] = counts.get(key, 0) + 1
    by_key = {table.key: table for table in tables}
    planned = [
        PlannedTable(
            str(by_key[key]),
            f"{preparation.schemas[key[0]]}.{source.rules.target_table(*key)}",
            sizes[by_key[key].oid].size_bytes,
            by_key[key].row_estimate,
            count,
        )
        for key, count in counts.items()
    ]
    total = sum(table.size_bytes for table in planned)
    return CopyPlan(
        source=source.name,
        tables=planned,
        steps=schema.steps,
        left_out=[*schema.left_out, *map(skipped_as_left_out, schema.skipped)],
        seconds_estimate=total / (BYTES_PER_SECOND * jobs),
    )
