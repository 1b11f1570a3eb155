"""A call in a thread of its own, and what became of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["BackgroundCall"]

Result = TypeVar("Result")


class BackgroundCall(Generic[Result]):
    """A function at work; the thread does not keep the program from ending."""

    def __init__(self, function: Callable[[], Result], name: str | None = None) -> None:
        """Start it."""
        self._function = function
        self._outcome: Callable[[], Result] | None = None
        self._is_done = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            value = self._function()
        except BaseException as exc:  # noqa: BLE001  raised again in result()
            error = exc

            def fail() -> Result:
                raise error

            self._outcome = fail
        else:
            self._outcome = lambda: value
        self._is_done.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether it is done."""
        return self._is_done.wait(timeout_s)

    def result(self) -> Result:
        """Wait for it, and return or raise what it did."""
        self._is_done.wait()
        if self._outcome is None:
            raise RuntimeError("done without an outcome")
        return self._outcome()
