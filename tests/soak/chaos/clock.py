"""The clock that programs see: a small library that is put before the system's, if cc is here."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_CODE = Path(__file__).with_name("clock.c")


class Clock:
    """A clock that can jump while a program runs; time that only grows is left alone."""

    #: Without a compiler there are no jumps, and the run says so.
    can_jump = shutil.which("cc") is not None

    def __init__(self, path: Path) -> None:
        self._path = path
        self.jump(0)

    @property
    def environment(self) -> Mapping[str, str]:
        if not self.can_jump:
            return {}
        return {"LD_PRELOAD": str(_library(self._path.parent)), "PGREPL_CLOCK": str(self._path)}

    def jump(self, seconds: int) -> None:
        """Show a time so far from the true one from now on."""
        # In one piece: a program may read it at any moment.
        aside = self._path.with_suffix(".new")
        aside.write_text(f"{seconds}\n", encoding="utf-8")
        aside.replace(self._path)


@functools.cache
def _library(folder: Path) -> Path:
    made = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", made, _CODE], check=True)
    return made
