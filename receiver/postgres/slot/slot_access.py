"""The two ways to read a slot over one connection: the server streams, or we pull by SQL."""

from __future__ import annotations

import logging

from pgrepl.decoding.stream import StreamDecoder
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.catalog import SourceFacts, read_facts
from pgrepl.receiver.postgres.slot.backlog import Backlog, Standing
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream
from pgrepl.receiver.postgres.source_session import SourceSession
from pgrepl.receiver.postgres.start_check import check_confirmed
from pgrepl.store.sources import SourceRow

__all__ = ["SlotAccess"]

logger = logging.getLogger(__name__)


class SlotAccess:
    """Begins to stream or to pull, and looks where the slot stands."""

    def __init__(
        self,
        *,
        session: SourceSession,
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
        self.config = session.config
        self._session = session
        self.backlog = backlog
        self._row = row
        self._decoder = decoder
        self._temp_bytes = temp_bytes
        self._may_pull = may_pull
        self._stop = stop
        self._awaits_standbys = False

    def begin(self, start: Lsn, facts: SourceFacts) -> Standing | None:
        """Begin to read, after a look at the source; returns what is to be pulled."""
        standing = self._standing(start, facts)
        if self.is_pulling_better(standing, is_pulling=False) and self.pull(standing):
            return standing
        self.start_stream(start)
        return None

    def is_pulling_better(self, standing: Standing, *, is_pulling: bool) -> bool:
        """Whether what is left is better pulled than streamed."""
        return self._may_pull and self.backlog.is_worth_pulling(standing, is_pulling=is_pulling)

    def start_stream(self, start: Lsn) -> None:
        """Let the server stream what follows a position."""
        self.stream.start(start, self._decoder)
        # Another session may have read from the slot since the first look. Now only ours can.
        self.look(start)
        logger.info("streaming", extra={"slot": self.config.slot, "start": start})

    def pull(self, standing: Standing) -> bool:
        """Prepare to pull what follows a position; False: it has to be streamed.

        Raises
        ------
        SourceError
            when another session moved the slot beyond what was received.

        """
        start = standing.received
        position = self.stream.copy_slot(self._decoder, self._temp_bytes)
        if position is None:
            self._may_pull = False
            logger.info(
                "a backlog is streamed: the source has no slot left to read it faster;"
                " raise max_replication_slots"
            )
            return False
        # From now on nobody can move it but us.
        check_confirmed(self._row, start, position)
        if position < start:
            # As after a crash of the source.
            self.stream.advance_copy(start)
        reach("receiver.at_pull")
        logger.info(
            "pulling",
            extra={
                "slot": self.config.slot,
                "start": start,
                "behind_bytes": standing.behind_bytes,
            },
        )
        return True

    def look_ahead(self, received: Lsn) -> Standing:
        """Return what is left to be pulled after a position."""
        end, restart = self.stream.look_at_copy()
        return self._make_standing(received, end, restart)

    def look(self, received: Lsn) -> Standing:
        """Return where the slot stands.

        Raises
        ------
        SourceError
            when another session moved it beyond what was received.

        """
        facts = read_facts(self._session)
        if facts.slot is not None:
            check_confirmed(self._row, received, facts.slot.confirmed_flush_lsn)
        return self._standing(received, facts)

    def _standing(self, received: Lsn, facts: SourceFacts) -> Standing:
        self._awaits_standbys = facts.awaits_standbys
        # A source without a position is a standby, and refused; one without a slot too.
        restart = None if facts.slot is None else facts.slot.restart_lsn
        return self._make_standing(received, facts.flush_lsn or received, restart or Lsn(0))

    def _make_standing(self, received: Lsn, end: Lsn, restart: Lsn) -> Standing:
        is_last = self._stop is not None and self._stop <= end
        return Standing(
            end=self._stop if self._stop is not None and is_last else end,
            is_last=is_last,
            received=received,
            restart=restart,
            awaits_standbys=self._awaits_standbys,
        )
