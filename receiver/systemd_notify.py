"""Tell systemd that we are ready and alive, if it asks: its protocol is one datagram a message."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress

__all__ = ["Notifier"]


class Notifier:
    """Speaks to ``NOTIFY_SOCKET``; without one it says nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read where to speak to, and how often the watchdog wants to hear from us."""
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the NUL of an abstract socket.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog_us = environment.get("WATCHDOG_USEC", "")
        # Twice as often as asked, as systemd recommends.
        self._every_s = int(watchdog_us) / 2_000_000 if watchdog_us.isdecimal() else None
        self._next_at = 0.0
        self._is_ready = False

    def ready(self) -> None:
        """Say that the service is up; saying it once is enough."""
        if not self._is_ready:
            self._is_ready = True
            self._send("READY=1")

    def alive(self) -> None:
        """Feed the watchdog when it is time."""
        if self._every_s is not None and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + self._every_s
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that we end on purpose."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A manager that does not listen is no reason to stop.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(self._address)
            sender.send(message.encode())
