"""How long ``pgrepl --help`` takes, beside a bare interpreter and beside pip.

A command that a person types must answer at once; nothing that is slow to import may be in its way.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
PROGRAMS = {
    "pgrepl --help": [str(Path(sys.executable).with_name("pgrepl")), "--help"],
    "pip --help": [sys.executable, "-m", "pip", "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def seconds(command: list[str]) -> float:
    """Run a command once."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    # The programs take turns, so that whatever else the machine does is shared by all.
    rounds = [{name: seconds(command) for name, command in PROGRAMS.items()} for _ in range(ROUNDS)]
    median = {name: statistics.median(r[name] for r in rounds) for name in PROGRAMS}
    print(f"start-up, median of {ROUNDS} runs")
    for name, value in median.items():
        ratio = value / median["python -c pass"]
        print(f"  {name:16} {value * 1000:6.0f} ms   {ratio:5.1f} times a bare interpreter")


if __name__ == "__main__":
    main()
