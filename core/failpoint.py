"""Places where a test can make the program die, to prove that it can die there.

``PGREPL_FAILPOINT=receiver.before_commit:kill`` kills the process with SIGKILL the first time it
reaches that place; ``...:kill:3`` the third time. Without the variable a place costs nothing worth
naming. The names stand where they are reached.
"""

from __future__ import annotations

import os
import signal

__all__ = ["reach"]

_VARIABLE = "PGREPL_FAILPOINT"


def _parse(text: str) -> tuple[str, int]:
    """Return the place and how many visits of it are survived."""
    name, _, action = text.partition(":")
    verb, _, count = action.partition(":")
    if not name or verb != "kill" or (count and not count.isdecimal()):
        message = f'{_VARIABLE} must be "name:kill" or "name:kill:N", not "{text}"'
        raise ValueError(message)
    return name, int(count or 1) - 1


_armed, _survived = _parse(os.environ[_VARIABLE]) if os.environ.get(_VARIABLE) else ("", 0)


def reach(name: str) -> None:
    """Die here if a test asks for it."""
    global _survived  # noqa: PLW0603  a test's switch is as global as its process
    if name != _armed:
        return
    if _survived > 0:
        _survived -= 1
        return
    os.kill(os.getpid(), signal.SIGKILL)
