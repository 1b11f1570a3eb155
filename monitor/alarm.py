"""Tells of what is wrong, once, and once when it is over."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pgrepl.config.alerts import AlertsConfig
from pgrepl.failpoint import reach
from pgrepl.monitor.alerts import News, find_news
from pgrepl.monitor.delivery import DeliveryFailed, deliver
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


class Alarm:
    """Compares each status with what was told; use it from one thread, by one process."""

    def __init__(self, config: AlertsConfig) -> None:
        """Prepare."""
        self.config = config
        self._backoffs: dict[tuple[str, str, str], tuple[Backoff, float]] = {}

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
        for news in find_news(status, self.config, known, now):
            if news.action == "keep":
                keep_alert(connection, news.row)
            elif news.action == "forget":
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

    def _tell(self, news: News, now: datetime) -> bool:
        """Tell, unless it failed a short while ago; return whether that succeeded."""
        row = news.row
        backoff, next_at = self._backoffs.get(row.key, (Backoff(_FIRST_S, _LIMIT_S), 0.0))
        if time.monotonic() < next_at:
            return False
        facts = {"source": row.source, "kind": row.kind, "subject": row.subject}
        try:
            deliver(self.config, as_document(news, now))
        except DeliveryFailed as exc:
            pause_s = backoff.fail()
            self._backoffs[row.key] = (backoff, time.monotonic() + pause_s)
            logger.error("alert: nobody was told: %s", exc, extra={**facts, "in_seconds": pause_s})  # noqa: TRY400
            return False
        self._backoffs.pop(row.key, None)
        logger.info("alert: %s", row.message, extra={**facts, "state": _state(news)})
        return True


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
