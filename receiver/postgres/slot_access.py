"""The two ways to read a slot over one connection: the server streams, or we pull by SQL."""

from __future__ import annotations

import logging

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.backlog import Backlog, Standing
from pgrepl.receiver.postgres.catalog import SourceFacts, read_facts
from pgrepl.receiver.postgres.replication_stream import ReplicationStream
from pgrepl.receiver.postgres.start_check import check_confirmed
from pgrepl.store.sources import SourceRow

__all__ = ["SlotAccess"]

logger = logging.getLogger(__name__)


class SlotAccess:
    """Begins to stream or to pull, and looks where the slot stands."""

    def __init__(
        self,
        *,
        config: SourceConfig,
        row: SourceRow,
        stream: ReplicationStream,
        decoder: StreamDecoder,
        backlog: Backlog,
        temp_bytes: int,
        may_pull: bool,
        stop: Lsn | None,
    ) -> None:
        """Take over a connection; ``stop`` is where reading ends, None: nowhere.

        A call that pulls may use ``temp_bytes`` of temporary files, where the role may limit them.
        """
        self.stream = stream
        self.config = config
        self.backlog = backlog
        self._row = row
        self._decoder = decoder
        self._temp_bytes = temp_bytes
        self._may_pull = may_pull
        self._stop = stop

    def begin(self, start: Lsn, facts: SourceFacts) -> Standing | None:
        """Begin to read, after a look at the source; returns what is to be pulled."""
        standing = self._standing(start, facts)
        if self.is_pulling_better(standing, is_pulling=False):
            self.pull(standing)
            return standing
        self.start_stream(start)
        return None

    def is_pulling_better(self, standing: Standing, *, is_pulling: bool) -> bool:
        """Whether what is left is better pulled than streamed."""
        return self._may_pull and self.backlog.is_worth_pulling(standing, is_pulling=is_pulling)

    def start_stream(self, start: Lsn) -> None:
        """Let the server stream what follows a position."""
        self.stream.start(start, self._decoder)
        # Somebody may have read from the slot since the first look. Now nobody can but us.
        self.look(start)
        logger.info("streaming", extra={"slot": self.config.slot, "start": start})

    def pull(self, standing: Standing) -> None:
        """Prepare to pull what follows a position."""
        self.stream.prepare_to_pull(standing.received, self._decoder, self._temp_bytes)
        reach("receiver.at_pull")
        logger.info(
            "pulling",
            extra={
                "slot": self.config.slot,
                "start": standing.received,
                "behind_bytes": standing.behind_bytes,
            },
        )

    def look(self, received: Lsn) -> Standing:
        """Return where the slot stands.

        Raises
        ------
        SourceError
            when somebody moved it beyond what was received.

        """
        facts = read_facts(self.config)
        check_confirmed(self._row, received, facts)
        return self._standing(received, facts)

    def _standing(self, received: Lsn, facts: SourceFacts) -> Standing:
        # A source without a position is a standby, and refused; one without a slot too.
        end = facts.flush_lsn or received
        is_last = self._stop is not None and self._stop <= end
        return Standing(
            end=self._stop if self._stop is not None and is_last else end,
            is_last=is_last,
            received=received,
            restart=facts.restart_lsn or Lsn(0),
        )
