"""Spark's Python daemon on a local master, with everything imported that a task needs.

Spark forks its workers from the daemon, and ends them after a minute without work. What the daemon
has imported, a worker need not: over half a second of CPU each time.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401  what every worker runs
from pyspark.daemon import manager

import pgrepl.replayer.shard.task  # noqa: F401  what every task runs

if __name__ == "__main__":
    gc.freeze()
    manager()
