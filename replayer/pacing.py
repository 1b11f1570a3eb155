"""How long to wait before the next batch. Pure.

A batch costs about the same however little is in it, so under load many changes are applied
together. Changes that are old already, because replication catches up, gain nothing by being
applied at once: the older they are, the more of them are waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pgrepl.replayer.settings import ReplaySettings

__all__ = ["seconds_apart"]


def seconds_apart(
    newest: Sequence[datetime], now: datetime, settings: ReplaySettings
) -> tuple[float, float]:
    """Return how far apart two batches begin, at least and at most.

    ``newest`` are the times at which each source committed the last that was applied of it. At most
    is for as long as a receiver has more at hand.
    """
    least = settings.pace_s
    age_s = min((now - at).total_seconds() for at in newest)
    return least, min(max(age_s / 2, least), settings.hold_s)
