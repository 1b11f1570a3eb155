"""What a run of the replayer says of each source at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.errors import PgreplError
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.source_queue import SourceWork
from pgrepl.store.locked import read_locked_names
from pgrepl.store.parked import read_parked_names
from pgrepl.store.parked_ddl import count_waiting
from pgrepl.store.progress.shard_progress import read_positions
from pgrepl.store.resync.resync_queue import read_due

__all__ = ["SourceResult", "make_result"]


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What was applied of a source, when it ended on purpose."""

    source: str
    applied: Position
    change_count: int
    batch_count: int
    #: Tables that are parked now, by schema and name.
    parked: Sequence[tuple[str, str]]
    #: How many statements wait for a person.
    waiting_ddl: int
    #: Tables that DDL left different and that are not copied again yet.
    due: Sequence[tuple[str, str]]
    #: Why it could not go on; None: it could.
    error: PgreplError | None
    #: Tables whose changes wait for a lock, and whose lock it is.
    locked: Sequence[tuple[tuple[str, str], str]] = ()


def make_result(control: Connection, work: SourceWork) -> SourceResult:
    """Read how a source stands."""
    source_id = work.source.source_id
    return SourceResult(
        source=work.source.name,
        applied=min(position.applied_lsn for position in read_positions(control, source_id)),
        change_count=work.change_count,
        batch_count=work.batch_count,
        parked=read_parked_names(control, source_id),
        waiting_ddl=count_waiting(control, source_id),
        due=[table.key for table in read_due(control, source_id)],
        error=work.error,
        locked=read_locked_names(control, source_id),
    )
