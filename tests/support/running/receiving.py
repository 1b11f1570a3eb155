"""Fixtures: sources that are ready to be received, and clusters to be hurt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pgrepl.throwaway import Cluster, ServerBinaries
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.running.streaming import Streaming


@pytest.fixture
def stream_from(target: Database, tmp_path: Path) -> Iterator[Callable[..., Streaming]]:
    """Return a function that makes a source streaming; its origin is dropped again."""
    made: list[Streaming] = []

    def begin(
        source: Database, *, into: Database | None = None, name: str = "shop", **settings: Any
    ) -> Streaming:
        folder = tmp_path / name
        folder.mkdir()
        streaming = Streaming(source, into or target, folder, settings, name)
        made.append(streaming)
        streaming.begin()
        return streaming

    yield begin
    for streaming in made:
        streaming.drop_origin()


@pytest.fixture
def make_cluster(binaries: ServerBinaries) -> Iterator[Callable[..., Cluster]]:
    """Return a function that starts a cluster for one test alone, to be hurt or set up."""
    with ExitStack() as stack:

        def make(settings: Mapping[str, str] = LOGICAL_DECODING) -> Cluster:
            given = {**LOGICAL_DECODING, **settings}
            return stack.enter_context(Cluster(settings=given, binaries=binaries))

        yield make


@pytest.fixture
def stream_alone(
    make_cluster: Callable[..., Cluster],
    make_database: Callable[..., Database],
    stream_from: Callable[..., Streaming],
) -> Callable[..., Streaming]:
    """Return a function that makes a source on a cluster of its own, with ``t (id, note)``."""

    def begin(settings: Mapping[str, str] = LOGICAL_DECODING) -> Streaming:
        source = make_database(make_cluster(settings), prefix="source")
        source.execute("create table t (id bigint primary key, note text)")
        return stream_from(source)

    return begin
