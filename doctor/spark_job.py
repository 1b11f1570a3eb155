"""The Spark job of ``pgrepl doctor``, run as a process of its own.

Reads ``{"master": ..., "conf": {...}}`` from standard input and prints the versions that driver and
worker have, and those settings that are judged, as JSON. None of them is a secret.
"""

from __future__ import annotations

import json
import sys

from pgrepl.config.model import SparkConfig
from pgrepl.doctor.checks.target.spark_checks import JUDGED_SETTINGS
from pgrepl.spark.session import build_session


def _worker_version(_: int) -> str:
    # Imported in the worker: that is the question.
    from pgrepl import __version__  # noqa: PLC0415

    return __version__


def main() -> None:
    """Run one task and print what it saw."""
    settings = json.load(sys.stdin)
    session = build_session(SparkConfig(**settings), "pgrepl-doctor")
    try:
        context = session.sparkContext
        (worker,) = context.parallelize([0], 1).map(_worker_version).collect()
        conf = dict(context.getConf().getAll())
        judged = {key: conf[key] for key in JUDGED_SETTINGS if key in conf}
        print(json.dumps({"spark": session.version, "worker": worker, "conf": judged}))  # noqa: T201
    finally:
        session.stop()


if __name__ == "__main__":
    main()
