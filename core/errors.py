"""Every error that pgrepl reports, with its exit code and its retry policy.

::

    PgreplError                    1   something unforeseen
     +- UsageError                 2   the command line names what does not exist
     +- ConfigError               10   pgrepl.toml, or this machine
     +- SourceError               20   a source database
     |   +- SourceUnavailable          ... does not answer now, and may later
     |       +- SourceChanged              ... as tables changed while a copy of them began
     |       +- SourceShutDown             ... which ended in good order, received as a whole
     +- TargetError               30   the target database
     |   +- TargetUnavailable          ... does not answer now, and may later
     |   |   +- TargetLocked               ... because another session holds a lock
     |   +- SchemaVersionError         ... holds a replication schema that is not this version's
     +- SpoolError                40   the spool, or the replication protocol
     +- DdlError                  50   captured DDL, or a parked table
     |   +- DdlStopped                 ... DDL that waits for a person to settle it
     +- VerifyDifference          60   source and target differ
     +- LagExceeded               70   a source lags more than it was asked not to
     +- AlreadyRunning            75   another process does this already
     +- Interrupted              130   Ctrl-C

A message is lower case without a full stop, and names the thing. A hint is a sentence that says
what to do about it. Neither ever holds a password or a row's value. All errors can be pickled,
because Spark carries them from a task to the driver: only the message is positional.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

__all__ = [
    "AlreadyRunning",
    "ConfigError",
    "DdlError",
    "DdlStopped",
    "Interrupted",
    "LagExceeded",
    "PgreplError",
    "Retry",
    "SchemaVersionError",
    "SourceChanged",
    "SourceError",
    "SourceShutDown",
    "SourceUnavailable",
    "SpoolError",
    "TargetError",
    "TargetLocked",
    "TargetUnavailable",
    "UsageError",
    "VerifyDifference",
]


class Retry(Enum):
    """What a program that runs unattended does after an error."""

    NEVER = "never"  # the same attempt fails the same way
    MANUAL = "manual"  # a person fixes something first
    TIMED = "timed"  # it passes by itself: try again with a backoff


class PgreplError(Exception):
    """Root of all errors that pgrepl raises on purpose."""

    exit_code: ClassVar[int] = 1
    retry: ClassVar[Retry] = Retry.NEVER

    def __init__(self, message: str, *, hint: str | None = None, lines: Sequence[str] = ()) -> None:
        """Keep the message as the only positional argument, so that the error can be pickled.

        ``lines`` say the same to people, where it is too much for one line.
        """
        super().__init__(message)
        self.hint = hint
        self.lines = tuple(lines)

    @property
    def message(self) -> str:
        """The error in one lower-case clause."""
        return str(self.args[0])


class UsageError(PgreplError):
    """The command line names something that does not exist."""

    exit_code = 2


class ConfigError(PgreplError):
    """The configuration, or this machine, is not fit for what was asked."""

    exit_code = 10
    retry = Retry.MANUAL


class SourceError(PgreplError):
    """A source database refused or cannot do what was asked."""

    exit_code = 20
    retry = Retry.MANUAL


class SourceUnavailable(SourceError):
    """A source database does not answer now, and may later."""

    retry = Retry.TIMED


class SourceShutDown(SourceUnavailable):
    """A source shut down in good order, and all that it had to send is received."""


class SourceChanged(SourceUnavailable):
    """Tables of a source are not what they were when a copy of them began."""


class TargetError(PgreplError):
    """The target database refused or cannot do what was asked."""

    exit_code = 30
    retry = Retry.MANUAL


class TargetUnavailable(TargetError):
    """The target database does not answer now, and may later."""

    retry = Retry.TIMED


class TargetLocked(TargetUnavailable):
    """Another session of the target holds a lock that was waited for long enough."""


class SchemaVersionError(TargetError):
    """The schema "replication" on the target is not one that this version can use."""


class SpoolError(PgreplError):
    """The spool or the replication protocol holds what must not be there."""

    exit_code = 40


class DdlError(PgreplError):
    """A captured DDL statement or a parked table waits for a person."""

    exit_code = 50
    retry = Retry.MANUAL


class DdlStopped(DdlError):
    """Captured DDL that cannot be applied until it is settled.

    It waits with its tables, or its source stops before it.
    """

    #: Tables of the source that it concerns, by schema and name, before and after it.
    tables: frozenset[tuple[str, str]] = frozenset()
    #: Whether it waits for a copy of them, and goes on by itself.
    is_copied: bool = False


class VerifyDifference(PgreplError):
    """Source and target hold different rows."""

    exit_code = 60


class LagExceeded(PgreplError):
    """The target lags behind a source by more than was allowed."""

    exit_code = 70
    retry = Retry.TIMED


class AlreadyRunning(PgreplError):
    """Another process does this work already."""

    exit_code = 75
    retry = Retry.TIMED


class Interrupted(PgreplError):
    """A person pressed Ctrl-C; the code is what shells expect, 128 + SIGINT."""

    exit_code = 130
