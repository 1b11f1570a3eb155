"""Ask a source of topics or files where it stands."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module

from pgrepl.config.model import SourceConfig
from pgrepl.lsn import Lsn
from pgrepl.status.facts import SourceFacts

__all__ = ["read_stream"]


def read_stream(config: SourceConfig) -> SourceFacts:
    """Read how many records a source has: the sum of its offsets is its position.

    Raises
    ------
    SourceError
        when it does not answer.

    """
    end = 0
    if config.kind == "kafka":
        # librdkafka is an optional dependency.
        cluster = import_module("pgrepl.kafka.client").Cluster(config)
        end = cluster.read_end()
    return SourceFacts(
        is_standby=False,
        lsn=Lsn(end) if config.kind == "kafka" else None,
        clock_at=datetime.now(UTC),
        system_identifier=0,
        timeline=0,
        plugin=None,
        slot_dbname=None,
        is_active=False,
        wal_status=None,
        safe_bytes=None,
        restart_lsn=None,
        confirmed_lsn=None,
        sent_lsn=None,
        write_lsn=None,
        receiver_since=None,
        is_stream=True,
    )
