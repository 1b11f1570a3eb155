"""What a transaction with DDL costs on the target: see ``bench.measuring.migration``.

    PYTHONPATH=. python bench/bench_ddl.py [--statements 1000] [--tables 200] [--plugin pgoutput]

CPU seconds say more than the clock where the machine has other work. ``--profile FILE`` writes what
the replaying process did, for ``pstats``.
"""

from __future__ import annotations

import argparse
from typing import get_args

from bench.measuring.migration import STATEMENTS, TABLES, measure_migration
from pgrepl.config.model import Plugin


def main() -> None:
    """Print the cost of a transaction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=STATEMENTS)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--plugin", choices=get_args(Plugin), default="pgoutput")
    parser.add_argument("--profile")
    given = parser.parse_args()
    found = measure_migration(given.plugin, given.statements, given.tables, given.profile)
    print(f"{found['transactions']} transactions: {found['outcomes']}, parked {found['parked']}")
    print(
        f"a transaction: {found['wall_ms']} ms; CPU: replay {found['replay_ms']} ms,"
        f" target {found['target_ms']} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
