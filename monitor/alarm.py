"""Tells of what is wrong, once, and once when it is over."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pgrepl.config.alerts import AlertsConfig
from pgrepl.failpoint import reach
from pgrepl.monitor.alerts import KINDS, News, find_news
from pgrepl.monitor.delivery import DeliveryFailed, Way, deliver
from pgrepl.postgres.connect import Connection
from pgrepl.retry import Backoff
from pgrepl.status import Status
from pgrepl.store.monitoring.alerts import forget_alert, keep_alert, read_alerts

__all__ = ["Alarm"]

logger = logging.getLogger(__name__)

#: What could not be delivered is tried later: the first and the longest pause.
_FIRST_S, _LIMIT_S = 10.0, 600.0

#: How long deliveries take at most before sources are looked at again.
_BUDGET_S = 20.0


_EVERYBODY: frozenset[Way] = frozenset({"command", "webhook"})


@dataclass(slots=True)
class _Attempt:
    """What could not be told to everybody."""

    #: "firing" or "over".
    state: str
    #: Who need not be told: they were, or never heard that it began.
    reached: frozenset[Way] = frozenset()
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_S, _LIMIT_S))
    next_at: float = 0.0


class Alarm:
    """Compares each status with what was told; use it from one thread, by one process."""

    def __init__(self, config: AlertsConfig) -> None:
        """Prepare."""
        self.config = config
        self._attempts: dict[tuple[str, str, str], _Attempt] = {}

    @property
    def is_on(self) -> bool:
        """Whether alerts are delivered at all."""
        return bool(self.config.command or self.config.webhook)

    def look(self, connection: Connection, status: Status) -> None:
        """Tell of what began and what is over.

        It is written down after it was delivered: a crash between the two delivers it again, and
        nothing is ever lost.
        """
        now = datetime.now(UTC)
        began_at = time.monotonic()
        known = read_alerts(connection)
        for found in find_news(status, self.config, known, now):
            news = self._with_those_who_know(found)
            if news.action == "keep":
                keep_alert(connection, news.row)
            elif news.action == "forget":
                self._attempts.pop(news.row.key, None)
                forget_alert(connection, news.row)
            elif time.monotonic() - began_at < _BUDGET_S and self._tell(news, now):
                reach("monitor.told")
                if news.action == "begin":
                    keep_alert(connection, replace(news.row, told_at=now))
                else:
                    forget_alert(connection, news.row)
            elif news.action == "begin":
                # Since when it lasts is remembered all the same.
                keep_alert(connection, news.row)

    def _with_those_who_know(self, news: News) -> News:
        """Have the end told of what began for some only: a webhook failed, a command did not."""
        attempt = self._attempts.get(news.row.key)
        if news.action != "forget" or attempt is None or not attempt.reached:
            return news
        return News("end", replace(news.row, message=KINDS[news.row.kind]))

    def _tell(self, news: News, now: datetime) -> bool:
        """Tell, unless it failed a short while ago; return whether that succeeded."""
        row, attempt = news.row, self._attempt(news)
        if time.monotonic() < attempt.next_at:
            return False
        facts = {"source": row.source, "kind": row.kind, "subject": row.subject}
        try:
            deliver(self.config, as_document(news, now), but=attempt.reached)
        except DeliveryFailed as exc:
            attempt.reached |= exc.reached
            pause_s = attempt.backoff.fail()
            attempt.next_at = time.monotonic() + pause_s
            self._attempts[row.key] = attempt
            who = "not everybody" if attempt.reached else "nobody"
            logger.error("alert: %s was told: %s", who, exc, extra={**facts, "in_seconds": pause_s})  # noqa: TRY400
            return False
        self._attempts.pop(row.key, None)
        logger.info("alert: %s", row.message, extra={**facts, "state": _state(news)})
        return True

    def _attempt(self, news: News) -> _Attempt:
        """Return what was tried before, if anything was."""
        attempt = self._attempts.get(news.row.key)
        if attempt is not None and attempt.state == _state(news):
            return attempt
        # Whoever did not hear that it began need not hear that it is over.
        knows = _EVERYBODY if attempt is None or news.row.told_at else attempt.reached
        return _Attempt(_state(news), _EVERYBODY - knows)


def as_document(news: News, now: datetime) -> dict[str, Any]:
    """Return what is told, as JSON can hold it, but for times."""
    row = news.row
    return {
        "state": _state(news),
        "kind": row.kind,
        "source": row.source,
        "subject": row.subject,
        "message": row.message,
        "since": row.since,
        "at": now,
        "commands": list(news.commands),
    }


def _state(news: News) -> str:
    return "firing" if news.action == "begin" else "over"
