"""Section ``[alerts]``: who is told of what."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from pgrepl.config import keys

__all__ = ["AlertsConfig"]

_LONGEST = timedelta(days=365)


def _check_webhook(address: str) -> str | None:
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and address.isascii():
            return None
    # The address may be a secret.
    return "must be an address that begins with http:// or https://"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsConfig:
    """Whom to tell, and from when on."""

    command: tuple[str, ...] = field(
        default=(),
        metadata=keys.words(
            "a program and its arguments, run without a shell for each alert and for its end, with"
            " the alert as JSON on its standard input; see [monitoring](monitoring.md#alerts)"
        ),
    )
    webhook: str = field(
        default="",
        repr=False,
        metadata=keys.secret(
            "an address that gets the same by POST; it is shown nowhere",
            check=_check_webhook,
        ),
    )
    lag: timedelta = field(
        default=timedelta(minutes=10),
        metadata=keys.duration("tell when the tables of a source lag more", high=_LONGEST),
    )
    slot: timedelta = field(
        default=timedelta(hours=6),
        metadata=keys.duration(
            "tell when a slot would be lost sooner than this without a receiver, at the present"
            " rate of WAL",
            high=_LONGEST,
        ),
    )
    receiver: timedelta = field(
        default=timedelta(minutes=5),
        metadata=keys.duration(
            "tell when no receiver of a source is connected for this long; more than the interval"
            " of a job of cron",
            high=_LONGEST,
        ),
    )
