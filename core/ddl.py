"""Where replay meets captured DDL: the replayer calls it, ``pgrepl.ddl_capture`` does it.

Stages do not import one another; ``cli`` brings the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pgrepl.errors import DdlStopped
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.store.sources import SourceRow

__all__ = ["CapturedDdl", "DdlApplier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedDdl:
    """One row that the event triggers wrote into ``pgrepl.ddl_log``, and its transaction."""

    source: SourceRow
    #: Commit LSN, end and time (as wal2json printed it) of the source transaction.
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_at: str
    #: The row: column to PostgreSQL's text of the value.
    row: Mapping[str, str | None]
    #: Why the row cannot be trusted to be what was run; None: it can.
    problem: str | None = None
    #: Reads all such rows of the transaction, in order, for who must know what follows.
    read_rows: Callable[[], Iterable[Mapping[str, str | None]]] = tuple


class DdlApplier(Protocol):
    """Applies captured DDL to the target."""

    def apply(self, connection: Connection, captured: CapturedDdl) -> None:
        """Apply one event inside the caller's open transaction, DML of its transaction around it.

        Raises
        ------
        DdlStopped
            when it cannot be applied, or its outcome differs from the source. The caller rolls
            back the whole transaction.

        """
        ...

    def record_stop(
        self, connection: Connection, captured: CapturedDdl, stopped: DdlStopped
    ) -> None:
        """Keep for a person what stopped, after the rollback, in a transaction of its own."""
        ...
