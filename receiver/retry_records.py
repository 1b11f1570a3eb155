"""Receive parked records after all: those that can be read by now, and that nothing replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from itertools import groupby
from typing import Protocol, cast

from pgrepl.config.model import Config, SourceConfig
from pgrepl.failpoint import reach
from pgrepl.receiver.kinds import make_source
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_opening import open_spool
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.retry import Candidates, Outcome, Past
from pgrepl.receiver.systemd_notify import Notifier
from pgrepl.receiver.wakeup import Wakeup

__all__ = ["retry_records"]

#: How many are judged and received in one transaction at most.
_AT_ONCE = 1000
_FIRST = ("", -1, -1)


class _RecordSource(Protocol):
    """A source of records."""

    def reopen(self, spool: SpoolSession) -> AbstractContextManager[Past]:
        """Open what was received."""


def retry_records(
    config: Config, source: SourceConfig, only: tuple[str, int, int] | None = None
) -> Iterator[Outcome]:
    """Receive parked records of a source, or one of them, and return what became of each.

    Raises
    ------
    AlreadyRunning
        when a receiver runs: only who receives knows what was received last.

    """
    wakeup = Wakeup()
    try:
        surroundings = Surroundings(ReceiverSettings(), wakeup, Notifier({}))
        reader = cast("_RecordSource", make_source(source, surroundings))
        with (
            closing(open_spool(source, config.target.endpoint)) as spool,
            reader.reopen(spool) as past,
        ):
            past.intake.attach(lambda batch: spool.write(batch, has_more=True))
            after = _FIRST
            while places := spool.read_parked_places(after, _AT_ONCE):
                after = places[-1]
                meant = [place for place in places if only in (None, place)]
                for (topic, partition), group in groupby(meant, key=lambda place: place[:2]):
                    offsets = [offset for _, _, offset in group]
                    while offsets:
                        candidates = Candidates(
                            past.envelope, (topic, partition), offsets, spool.is_parked
                        )
                        yield from _retry(spool, past, candidates)
                        offsets = candidates.late
    finally:
        wakeup.close()


def _retry(spool: SpoolSession, past: Past, candidates: Candidates) -> Iterator[Outcome]:
    """Receive what can be of one partition, in one transaction."""
    place = candidates.place
    candidates.judge(past.history)
    outcomes = past.intake.gather(candidates.gather)
    settled = [(*place, own.offset) for own in outcomes if own.verdict != "parked"]
    if settled:
        spool.write(replace(past.intake.batch(), settled=settled), has_more=False)
        reach("records.received")
    for own in outcomes:
        if own.verdict == "parked":
            spool.note_parked((*place, own.offset), own.reason)
    yield from outcomes
