"""Named places where a test may end the program, as ``kill -9`` would.

``PGREPL_FAILPOINT=name:kill`` kills the process that reaches ``name``. Nobody else sets it.
"""

from __future__ import annotations

import os
import signal

__all__ = ["reach"]

_VARIABLE = "PGREPL_FAILPOINT"


def reach(name: str) -> None:
    """Die here when the environment asks for it."""
    if os.environ.get(_VARIABLE) == f"{name}:kill":
        os.kill(os.getpid(), signal.SIGKILL)
