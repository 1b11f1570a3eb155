"""A source and its copy without Spark, whose changes are handed on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.running.live import Live


@pytest.fixture
def make_migrated(
    target_cluster: Cluster, make_database: Callable[..., Database], _migrated: str
) -> Callable[[], Database]:
    """Return a function that makes another target."""
    return lambda: make_database(target_cluster, prefix="target", template=_migrated)


@pytest.fixture
def live_of(source: Database, target: Database, tmp_path: Path) -> Callable[..., Live]:
    """Return a function that makes tables on both sides and streams from there on."""

    def make(plugin: str, *tables: str) -> Live:
        return Live(source, target, tmp_path, plugin).begin(*tables)

    return make
