"""What a comparison is asked for, what it says on the way, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pgrepl.catalog.unreadable import Unreadable
from pgrepl.config.naming import TableSelection
from pgrepl.errors import PgreplError

__all__ = [
    "DifferenceKind",
    "RowDifference",
    "SequenceFinding",
    "StructureDifference",
    "TableReport",
    "VerifyOptions",
    "VerifyReport",
    "Watcher",
]

DifferenceKind = Literal["changed", "missing", "extra"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The options of one run."""

    tables: TableSelection | None = None
    #: The share of each table to compare, between 0 and 1.
    sample: float = 1.0
    with_rows: bool = False
    #: How long the target may take to pass a position of the source.
    patience_s: float = 60.0
    #: None: as many as Spark has cores.
    jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that is not the same on both sides."""

    #: changed: both have it. missing: the target has it not. extra: the source has it not.
    kind: DifferenceKind
    #: Key column to its text; empty for a table without a key.
    key: Mapping[str, str]
    #: Of a changed row the columns that differ, if it stayed long enough to look.
    columns: Sequence[str] = ()
    #: How many rows of a table without a key are alike.
    count: int = 1
    #: Column to text, when rows are to be shown.
    source_row: Mapping[str, str | None] | None = None
    target_row: Mapping[str, str | None] | None = None


@dataclass(slots=True, kw_only=True)
class TableReport:
    """What was found in one table."""

    name: str
    target_name: str
    source_rows: int = 0
    target_rows: int = 0
    piece_count: int = 0
    compared_count: int = 0
    differences: list[RowDifference] = field(default_factory=list)
    #: Whether there are more differences than are listed.
    has_more: bool = False
    #: Rows that changed too often, or for which the target did not come far enough.
    unsettled_count: int = 0
    #: Pieces in which more changed, each time, than can be looked at row by row.
    unsettled_piece_count: int = 0
    #: Why it was not compared though nobody copies it right now: that is a failure.
    failure: str | None = None
    #: Why it was not compared, or what else there is to know about it.
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureDifference:
    """A table, column or key that is not the same on both sides."""

    table: str
    what: str
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFinding:
    """A sequence that is not the same on both sides."""

    name: str
    what: str
    source: str | None
    target: str | None
    #: A value lower than the source's is reported, but is none: replication does not carry values.
    is_difference: bool


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """What was found for one source."""

    source: str
    tables: list[TableReport] = field(default_factory=list)
    structure: list[StructureDifference] = field(default_factory=list)
    sequences: list[SequenceFinding] = field(default_factory=list)
    #: Tables and sequences of the source that pgrepl's role may not read: not compared.
    unreadable: list[Unreadable] = field(default_factory=list)
    seconds: float = 0.0
    #: Why not everything could be judged.
    error: PgreplError | None = None

    @property
    def uncompared(self) -> list[str]:
        """The tables of which it is not known whether they are equal."""
        return [
            table.name
            for table in self.tables
            if table.failure is not None or (table.unsettled_piece_count and self.error is None)
        ]

    @property
    def has_differences(self) -> bool:
        """Whether the target is not what the source is."""
        return (
            bool(self.structure)
            or any(table.differences or table.has_more for table in self.tables)
            or any(finding.is_difference for finding in self.sequences)
        )


class Watcher(Protocol):
    """Who is told how a comparison gets on."""

    def begin(self, phase: str) -> None:
        """Hear that a phase begins."""

    def show(self, done: int, total: int, source_rows: int) -> None:
        """Hear how many pieces are compared."""
