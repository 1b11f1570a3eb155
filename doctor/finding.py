"""What the doctor finds, as values: how grave it is and what fixes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from psycopg.sql import SQL, Composed

__all__ = ["Area", "Examination", "Finding", "Remedy", "Status", "exit_code", "listed"]


class Area(Enum):
    """What was examined."""

    SOURCE = "source"
    TARGET = "target"
    HERE = "here"


_EXIT_CODES = {Area.SOURCE: 20, Area.TARGET: 30, Area.HERE: 10}


class Status(Enum):
    """How grave a finding is."""

    OK = "ok"
    WARNING = "warning"  # works, but look at it
    FAILURE = "failure"  # would fail later, or lose data silently
    SKIPPED = "skipped"  # cannot be checked before another failure is fixed


@dataclass(frozen=True, slots=True)
class Remedy:
    """What fixes a failure, in the order it is to be done."""

    #: Statements for the database that was examined, each runnable as it is, without semicolon.
    sql: tuple[str, ...] = ()
    #: Commands for a shell, on the machine that the text before the colon names.
    shell: tuple[str, ...] = ()
    #: What no command can do: "restart the server".
    then: str | None = None

    @classmethod
    def of(cls, *statements: SQL | Composed, then: str | None = None) -> Remedy:
        """Make a remedy of composed SQL."""
        return cls(sql=tuple(statement.as_string() for statement in statements), then=then)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    status: Status
    message: str
    remedy: Remedy | None = None
    #: Every object concerned, where the message shows only the first few.
    objects: tuple[str, ...] = ()
    #: Whether the script for psql has the statements of this warning too: privileges to give, and
    #: what a source must not have.
    is_offered: bool = False

    @property
    def is_in_script(self) -> bool:
        """Whether the script for psql tells of it."""
        return self.status is Status.FAILURE or self.is_offered

    @classmethod
    def ok(cls, check: str, message: str) -> Finding:
        """All is well."""
        return cls(check, Status.OK, message)

    @classmethod
    def skipped(cls, check: str, message: str) -> Finding:
        """It could not be told."""
        return cls(check, Status.SKIPPED, message)


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings about one source, the target, or this machine."""

    area: Area
    name: str
    findings: tuple[Finding, ...]
    #: How psql reaches the database, without user and secrets; None for this machine.
    psql_conninfo: str | None = None

    @property
    def title(self) -> str:
        """The words for a person: ``source shop``, ``target``, ``here``."""
        area = self.area.value
        return area if area == self.name else f"{area} {self.name}"

    @property
    def has_failed(self) -> bool:
        """Whether any check failed."""
        return any(finding.status is Status.FAILURE for finding in self.findings)


def exit_code(examinations: Iterable[Examination]) -> int:
    """Return 0, or the code of the first area that failed: sources, target, this machine."""
    failed = {examination.area for examination in examinations if examination.has_failed}
    return next((_EXIT_CODES[area] for area in Area if area in failed), 0)


def listed(names: Sequence[str], limit: int = 3) -> str:
    """Name the first few of many objects."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
