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
        is_stream=True,
    )
