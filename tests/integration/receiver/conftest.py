"""Sources that are ready to be received."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.database import Database
from tests.support.streaming import Streaming


@pytest.fixture
def stream_from(target: Database, tmp_path: Path) -> Iterator[Callable[..., Streaming]]:
    """Return a function that makes a source streaming; its origin is dropped again."""
    made: list[Streaming] = []

    def begin(source: Database, *, into: Database | None = None, **settings: Any) -> Streaming:
        folder = tmp_path / f"streaming{len(made)}"
        folder.mkdir()
        streaming = Streaming(source, into or target, folder, settings)
        made.append(streaming)
        streaming.begin()
        return streaming

    yield begin
    for streaming in made:
        streaming.drop_origin()


@pytest.fixture
def streaming(source: Database, stream_from: Callable[..., Streaming]) -> Streaming:
    """Return a streaming source with one table, ``public.t (id, note)``."""
    source.execute("create table t (id bigint primary key, note text)")
    return stream_from(source)
