"""What is exported, and to where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from pgrepl.export.envelopes.envelope import Envelope, EnvelopeName
from pgrepl.export.sinks.sink import Sink
from pgrepl.store.spool.consumers import Consumer, ConsumerKind

__all__ = ["ExportPlan", "ExportSettings", "MakeSink"]


class MakeSink(Protocol):
    """Makes what writes to the destination."""

    def __call__(self, consumer: Consumer, *, is_restart: bool) -> Sink:
        """Return it; a restart may follow what an earlier consumer wrote."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What nobody has to set."""

    batch_changes: int = 50_000
    batch_segments: int = 1000
    #: How often a consumer that has nothing to read says so.
    touch_s: float = 10.0
    backoff_s: float = 0.5
    backoff_limit_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What is exported, and to where."""

    consumer: str
    kind: ConsumerKind
    destination: str
    envelope: EnvelopeName
    #: Patterns of tables; none: all of them.
    tables: tuple[str, ...]
    #: What else another run must agree with.
    options: Mapping[str, Any]
    keep: timedelta
    #: Whether the rows that there are come first.
    has_snapshot: bool
    #: Seconds between two batches, for destinations where each makes files.
    pause_s: float
    make_sink: MakeSink
    make_envelope: Callable[[str], Envelope]

    @property
    def stored_options(self) -> dict[str, Any]:
        """What the target keeps of it."""
        return {"envelope": self.envelope, "tables": list(self.tables), **self.options}
