"""In which order files of tests are begun, so that processes which share them end together."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[2]

#: They share a broker.
_BROKER = [TESTS / "integration" / name for name in ("kafka", "export")]

#: Each takes the better part of a minute: one that is begun last leaves the others idle.
LONG = [
    TESTS / "spark" / "ddl" / "test_reach.py",
    TESTS / "spark" / "replay" / "test_replay_scenarios.py",
    TESTS / "spark" / "whole_way" / "test_data_source.py",
    TESTS / "spark" / "whole_way" / "test_demo.py",
    TESTS / "spark" / "whole_way" / "test_upgrade.py",
    TESTS / "spark" / "whole_way" / "test_upgrade_order.py",
    TESTS / "integration" / "ddl_capture" / "apply" / "test_statements.py",
]

#: They need no server, so that a file of them takes seconds.
_UNIT = TESTS / "unit"


def needs_broker(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _BROKER)


def place(path: Path) -> int:
    """Return a number that is less for what has to be begun sooner."""
    if needs_broker(path):
        return 0
    if path in LONG:
        return 1
    return 3 if path.is_relative_to(_UNIT) else 2
