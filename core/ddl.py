"""A captured statement on its way from replay, which reads it, to ``pgrepl.ddl_capture``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pgrepl.lsn import Lsn
from pgrepl.store.sources import SourceRow

__all__ = ["CapturedDdl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedDdl:
    """One row that the event triggers wrote into ``pgrepl.ddl_log``, and its transaction."""

    source: SourceRow
    #: Commit LSN and time (PostgreSQL's text) of the source transaction.
    commit_lsn: Lsn
    commit_at: str
    #: The row: column to PostgreSQL's text of the value.
    row: Mapping[str, str | None]
    #: Why the row cannot be trusted to be what was run; None: it can.
    problem: str | None = None
    #: Parked tables whose changes are being applied around it: DDL on them need not wait.
    worked_off: frozenset[tuple[str, str]] = frozenset()
    #: Reads all such rows of the transaction, in order, for who must know what follows.
    read_rows: Callable[[], Iterable[Mapping[str, str | None]]] = tuple
