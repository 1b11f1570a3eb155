"""What the last look found, and how old that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgrepl.errors import PgreplError
from pgrepl.status import Status
from pgrepl.status.facts import SourceFacts

__all__ = ["Snapshot", "Trouble"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is nothing newer: the target does not answer."""

    message: str
    hint: str | None
    #: Since when every look failed.
    since: datetime

    @classmethod
    def of(cls, error: PgreplError, before: Trouble | None) -> Trouble:
        """Return the trouble that an error is; one that lasts keeps its beginning."""
        since = before.since if before is not None else datetime.now(UTC)
        return cls(error.message, error.hint, since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is known; never changed, replaced by the next one."""

    #: Counts the looks, so that what was made of a snapshot can be kept as long as it holds.
    number: int = 0
    #: None before the first look that succeeded.
    status: Status | None = None
    trouble: Trouble | None = None
    #: How long the last look took.
    seconds: float = 0.0
    #: What each source last said of itself, and when, here; kept while it is down.
    last_seen: Mapping[str, tuple[datetime, SourceFacts]] = field(default_factory=dict)

    @property
    def is_up(self) -> bool:
        """Whether the target answered the last look."""
        return self.status is not None and self.trouble is None

    @property
    def at(self) -> datetime | None:
        """When the status was read."""
        return None if self.status is None else self.status.at
