"""Questions to servers that may be recovering when they are asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

T = TypeVar("T")

#: How long a server may take to come back, or a command to find its way.
PATIENCE_S = 600


def patiently(ask: Callable[[], T]) -> T:
    """Ask until a server answers."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
