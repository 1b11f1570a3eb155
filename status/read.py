"""Ask all servers, the sources at once, and judge."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from pgrepl.background import BackgroundCall
from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import PgreplError, SourceUnavailable
from pgrepl.status.facts import SourceFacts
from pgrepl.status.looks import Looks
from pgrepl.status.problems.judge import SourceStatus, judge, judge_unconfigured, worst_code
from pgrepl.status.source_facts import PATIENCE_S
from pgrepl.status.target_facts import read_target

__all__ = ["Status", "read_status"]

#: A server can take a connection and then say nothing; it is not waited for much longer.
_DEADLINE_S = PATIENCE_S + 2.0


@dataclass(frozen=True, slots=True)
class Status:
    """The status of some sources at one moment."""

    at: datetime
    sources: Sequence[SourceStatus]

    @property
    def exit_code(self) -> int:
        """Whether all is well: 0, or the code of the worst problem."""
        return worst_code(problem for source in self.sources for problem in source.problems)


def read_status(
    config: Config,
    sources: Sequence[SourceConfig],
    max_lag: timedelta | None = None,
    *,
    others: Collection[str] | Literal["all"] = (),
    looks: Looks | None = None,
) -> Status:
    """Read the status of some sources, those that are down included.

    ``others`` are sources that the configuration does not have and the target may know. ``looks``
    is for who asks again and again.

    Raises
    ------
    TargetError
        when the target does not answer: nothing can be said without it.

    """
    looks = looks or Looks()
    # A server that does not answer in time is left to its thread, which ends with the program.
    readings = [looks.begin(source) for source in sources]
    deadline = time.monotonic() + _DEADLINE_S
    # The target is asked after the sources, so that what it has can only be newer.
    answers = [
        _answer(source, reading, deadline)
        for source, reading in zip(sources, readings, strict=True)
    ]
    known = read_target(
        config.target.endpoint,
        [source.name for source in sources] + ([] if others == "all" else list(others)),
        configured=list(config.sources) if others == "all" else None,
    )
    judged = [
        judge(source, answer, known.get(source.name), max_lag, looks.wal_rate(source.name, answer))
        for source, answer in zip(sources, answers, strict=True)
    ]
    judged += [
        judge_unconfigured(facts, config.path)
        for name, facts in sorted(known.items())
        if name not in config.sources
    ]
    return Status(datetime.now().astimezone(), judged)


def _answer(
    source: SourceConfig, reading: BackgroundCall[SourceFacts], deadline: float
) -> SourceFacts | PgreplError:
    if not reading.wait(max(deadline - time.monotonic(), 0)):
        return SourceUnavailable(
            f'source "{source.name}": no answer in time',
            hint="Is the server overloaded, or stopped?",
        )
    try:
        return reading.result()
    except PgreplError as exc:
        return exc
