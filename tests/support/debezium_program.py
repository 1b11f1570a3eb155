"""A real Debezium that writes to the tests' broker, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_debezium(
    folder: Path,
    *,
    bootstrap: str,
    prefix: str,
    host: str,
    port: int,
    dbname: str,
    until: int,
    die_after: int | None = None,
) -> int:
    """Run it to its end, and return its exit code."""
    given = {
        "bootstrap": bootstrap,
        "until": until,
        "die_after": die_after,
        "properties": {
            "name": "engine",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "0",
            "database.hostname": host,
            "database.port": str(port),
            "database.user": "dbz",
            "database.password": "dbz",
            "database.dbname": dbname,
            "plugin.name": "pgoutput",
            "slot.name": f"dbz_{dbname}",
            "publication.name": "dbz",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.*",
            "topic.prefix": prefix,
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "tombstones.on.delete": "true",
            "decimal.handling.mode": "string",
            "interval.handling.mode": "string",
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            # Small batches end inside transactions.
            "max.batch.size": "7",
            "max.queue.size": "64",
            "poll.interval.ms": "20",
        },
    }
    with (folder / "debezium.log").open("ab") as sink:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.debezium_engine", json.dumps(given)],
            # It writes a log where it runs.
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=sink,
            stderr=sink,
            check=False,
            timeout=150,
        )
    return done.returncode
