"""Sources that are ready to be received."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.database import Database
from tests.support.running.receiving import make_cluster, stream_alone, stream_from
from tests.support.running.streaming import Streaming

__all__ = ["make_cluster", "stream_alone", "stream_from", "streaming"]


@pytest.fixture
def streaming(source: Database, stream_from: Callable[..., Streaming]) -> Streaming:
    """Return a streaming source with one table, ``public.t (id, note)``."""
    source.execute("create table t (id bigint primary key, note text)")
    return stream_from(source)
