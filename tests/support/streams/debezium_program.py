"""A real Debezium that writes to the tests' broker, run to its end."""

from __future__ import annotations

from pathlib import Path

from pgrepl.throwaway import Broker
from pgrepl.throwaway.debezium import Debezium


def run_debezium(
    folder: Path,
    *,
    broker: Broker,
    prefix: str,
    port: int,
    dbname: str,
    until: int,
    die_after: int | None = None,
) -> int:
    """Run it to its end, and return its exit code."""
    debezium = Debezium(
        broker=broker,
        folder=folder,
        prefix=prefix,
        host="127.0.0.1",
        port=port,
        dbname=dbname,
        user="dbz",
        password="dbz",
        settings={
            "decimal.handling.mode": "string",
            "interval.handling.mode": "string",
            # Small batches end inside transactions.
            "max.batch.size": "7",
            "max.queue.size": "64",
        },
    )
    return debezium.start(until=until, die_after=die_after).wait(timeout=150)
