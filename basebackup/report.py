"""What a copy is asked for, what it says on the way, and what it reports at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.config.naming import TableSelection
from pgrepl.lsn import Lsn
from pgrepl.store.tables.copy_work import TableProgress

__all__ = ["CopyOptions", "CopyReport", "Outcome", "Phase", "Watcher"]

Phase = Literal[
    "slot",
    "schema",
    "data",
    "keys",
    "foreign keys",
    "views",
    "sequences",
    "statistics",
    "waiting",
    "chunks",
    "swap",
    "changes that waited",
]
Outcome = Literal["copied", "resumed", "already copied", "schema made"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """The options of one run."""

    #: Narrows what the configuration selects; None: not given.
    tables: TableSelection | None = None
    #: None: as many as Spark has cores.
    jobs: int | None = None
    #: None: not given, which is as False, except that a copy that began otherwise goes on.
    with_all_indexes: bool | None = None
    with_views: bool = False
    is_restart: bool = False
    is_schema_only: bool = False
    lock_timeout_s: int = 30

    @property
    def selection(self) -> TableSelection:
        """Which of the tables that the configuration selects are copied."""
        return self.tables if self.tables is not None else TableSelection.of(["*.*"])

    def shape(self) -> dict[str, object]:
        """Return what decides what a copy holds, by the names of the options, to be kept."""
        return {
            "tables": sorted({pattern.text for pattern in self.selection.include}),
            "exclude": sorted({pattern.text for pattern in self.selection.exclude}),
            "indexes": "all" if self.with_all_indexes else "keys",
            "views": self.with_views,
        }

    def given(self) -> dict[str, object]:
        """Return of the shape what was asked for by name."""
        is_given = {
            "tables": self.tables is not None,
            "exclude": self.tables is not None,
            "indexes": self.with_all_indexes is not None,
            "views": self.with_views,
        }
        return {option: value for option, value in self.shape().items() if is_given[option]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """How a copy ended."""

    source: str
    outcome: Outcome
    #: From where on the receiver streams; None when only the schema was made.
    consistent_point: Lsn | None
    target_schemas: Sequence[str]
    tables: Sequence[TableProgress]
    left_out: Sequence[LeftOut]
    seconds: float


class Watcher(Protocol):
    """Who is told how the copy gets on."""

    def begin(self, phase: Phase) -> None:
        """Hear that a phase begins."""

    def show(self, tables: Sequence[TableProgress]) -> None:
        """Hear how far each table is, about once a second."""
