"""Fuzz one target with atheris, guided by coverage: ``run.py TARGET SECONDS``; see ``make fuzz``.

An input that breaks it is written to the current folder: fix the cause, and keep the input in
``tests/fuzz/corpus/TARGET/``, which the unit tests read.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # installed by make fuzz only

with atheris.instrument_imports(include=["pgrepl"]):
    from pgrepl.errors import PgreplError
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until the time is over or an input breaks the target."""
    name, seconds = sys.argv[1:]
    target = TARGETS[name]

    def one(data: bytes) -> None:
        with suppress(PgreplError):
            target(data)

    grown = Path(".fuzz") / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    kept = Path(__file__).with_name("corpus") / name
    options = [
        f"-max_total_time={seconds}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(grown), str(kept)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
