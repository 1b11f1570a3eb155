"""What the receiver needs of a source, whatever its kind; ``pgrepl.receiver.kinds`` lists them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pgrepl.config.model import OnError, SourceConfig
from pgrepl.position import Position
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.systemd_notify import Notifier
from pgrepl.receiver.wakeup import Wakeup

__all__ = ["MakeSource", "Source", "SourceStream", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a receiver's process gives to whoever reads a source."""

    settings: ReceiverSettings
    #: Ends waits, and says when to stop.
    wakeup: Wakeup
    notifier: Notifier
    #: What a record does that cannot be read.
    on_error: OnError = "park"


class SourceStream(Protocol):
    """An open source: it sends what follows the position that the target has recorded."""

    @property
    def start(self) -> Position:
        """Everything before it is in the spool already."""

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or until the end that was asked for.

        Batches go to the writer in order. What the writer has flushed, and nothing beyond it, is
        confirmed to the source, which may then forget it.
        """


class Source(Protocol):
    """A source that can be received."""

    def mark_end(self) -> Position:
        """Return a position that no transaction lies after which committed before this call."""

    def open(
        self, spool: SpoolSession, stop: Position | None
    ) -> AbstractContextManager[SourceStream]:
        """Connect, and check that nothing is missing between the spool and what will be sent.

        ``stop`` is the position to end at; None: on and on.

        Raises
        ------
        SourceError, SpoolError
            when something may be missing.

        """

    def close(self) -> None:
        """End what is kept between one of these calls and the next."""


MakeSource = Callable[[SourceConfig, Surroundings], Source]
