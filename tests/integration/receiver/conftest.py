"""Sources that are ready to be received."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.doctor.plugin_probe import probe_plugin
from pgrepl.postgres.connect import connect
from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.running.receiving import make_cluster, stream_alone, stream_from
from tests.support.running.streaming import Streaming

__all__ = ["has_text_numbers", "make_cluster", "stream_alone", "stream_from", "streaming"]


@pytest.fixture
def streaming(source: Database, stream_from: Callable[..., Streaming]) -> Streaming:
    """Return a streaming source with one table, ``public.t (id, note)``."""
    source.execute("create table t (id bigint primary key, note text)")
    return stream_from(source)


@pytest.fixture(scope="session")
def has_text_numbers(source_cluster: Cluster) -> bool:
    """Whether wal2json is 2.6 or newer: numbers arrive as text, NaN and Infinity too."""
    endpoint = Endpoint(Side.SOURCE, "any", Dsn(source_cluster.dsn()))
    with connect(endpoint, "test") as connection:
        return bool(probe_plugin(connection).has_text_numbers)
