"""Copy a table again in chunks: key ranges, each placed in the stream under its own snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import UsageError
from pgrepl.postgres.connect import Connection
from pgrepl.store.resyncs import ResyncRow
from pgrepl.store.sources import SourceRow

__all__ = ["ChunkedResync", "find_obstacle", "run_chunked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedResync:
    """A table to copy in chunks, and the sessions that may be used for it."""

    config: Config
    source: SourceConfig
    row: SourceRow
    table: SourceTable
    #: The row of ``replication.resync``, as it was when the run began; ``last_key`` says where an
    #: earlier run ended.
    resync: ResyncRow
    target: Connection
    origin: Connection
    #: Sleeps, or raises to break it off; to be called about once a second.
    pause: Callable[[float], None]
    #: How long to wait for a lock or for replay.
    wait_s: int


def find_obstacle(target: Connection, row: SourceRow, table: SourceTable) -> str | None:
    """Return why a table cannot be copied in chunks; None: it can."""
    del target, row, table
    return "this version copies tables as a whole only"


def run_chunked(work: ChunkedResync) -> None:
    """Copy a table in chunks, from the last chunk of an earlier run on, until it is caught up.

    Raises
    ------
    PgreplError
        whatever is wrong; the same call repeated goes on after the last chunk.

    """
    raise UsageError(f"table {work.table} cannot be copied in chunks")
