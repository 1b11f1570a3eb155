"""Delivers an alert: by a command of the user's, or by a request to a webhook."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal
from urllib.error import HTTPError, URLError

from pgrepl import __version__
from pgrepl.config.alerts import AlertsConfig
from pgrepl.terminal import json_text, printable

__all__ = ["DeliveryFailed", "Way", "deliver"]

#: Longer than this nobody is waited for.
PATIENCE_S = 10.0

#: The number of characters that are logged of what a command says when it fails.
_SHOWN = 200


Way = Literal["command", "webhook"]
"""How an alert is delivered."""


class DeliveryFailed(Exception):  # noqa: N818  names what happened
    """Not everybody could be told; the text says why, and holds no secret."""

    def __init__(self, reason: str, reached: frozenset[Way] = frozenset()) -> None:
        """Take what went wrong, and which ways did not."""
        super().__init__(reason)
        self.reached = reached


def deliver(
    config: AlertsConfig,
    document: dict[str, Any],
    patience_s: float = PATIENCE_S,
    *,
    but: frozenset[Way] = frozenset(),
) -> None:
    """Tell of an alert, in each way that is configured, ``but`` those in which it was told.

    Raises
    ------
    DeliveryFailed
        when one of them failed; all were tried.

    """
    failures: list[str] = []
    reached: set[Way] = set()
    ways: Sequence[tuple[Way, object, Callable[[AlertsConfig, dict[str, Any], float], None]]] = (
        ("command", config.command, _run),
        ("webhook", config.webhook, _post),
    )
    for way, is_wanted, tell in ways:
        if is_wanted and way not in but:
            try:
                tell(config, document, patience_s)
                reached.add(way)
            except DeliveryFailed as exc:
                failures.append(str(exc))
    if failures:
        raise DeliveryFailed("; ".join(failures), frozenset(reached))


def _run(config: AlertsConfig, document: dict[str, Any], patience_s: float) -> None:
    """Run the command, without a shell: the alert is its standard input, and in its environment."""
    facts = {
        f"PGREPL_ALERT_{name.upper()}": str(document[name]).replace("\0", "")
        for name in ("state", "kind", "source", "subject", "message")
    }
    program = config.command[0]
    try:
        process = subprocess.Popen(
            list(config.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **facts},
            # What it started ends with it.
            start_new_session=True,
        )
    except OSError as exc:
        raise DeliveryFailed(f"cannot run {program}: {(exc.strerror or '').lower()}") from exc
    with process:
        try:
            _, said = process.communicate(f"{json_text(document)}\n".encode(), timeout=patience_s)
        except subprocess.TimeoutExpired as exc:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise DeliveryFailed(
                f"{program} did not end within {patience_s:g} s and was killed"
            ) from exc
    if process.returncode:
        shown = printable(said.decode(errors="replace").strip()[:_SHOWN])
        raise DeliveryFailed(f"{program} exited with {process.returncode}: {shown or 'no word'}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is meant for one address goes to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _post(config: AlertsConfig, document: dict[str, Any], patience_s: float) -> None:
    """Post the alert as JSON; the address may be a secret and is in no text."""
    request = urllib.request.Request(  # noqa: S310  http or https, by the configuration
        config.webhook,
        json_text(document).encode(),
        {"Content-Type": "application/json", "User-Agent": f"pgrepl/{__version__}"},
        method="POST",
    )
    try:
        with _OPENER.open(request, timeout=patience_s):
            pass
    except HTTPError as exc:
        exc.close()
        raise DeliveryFailed(f"the webhook answered {exc.code}") from exc
    except (URLError, OSError, ValueError) as exc:
        raise DeliveryFailed(f"the webhook failed: {type(exc).__name__}") from exc
