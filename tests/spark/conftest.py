"""A backlog that is made once, and a clone of it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.throwaway import Cluster
from tests.support.running.backlog import make_backlog
from tests.support.running.pipeline import Pipeline, clone


@pytest.fixture(scope="session", autouse=True)
def _quick_java(quick_java: None) -> None:
    """All tests here start JVMs, most of them in programs that they run."""


@pytest.fixture(scope="session")
def _backlog(
    one_spark_session: None,  # noqa: ARG001  the copy needs it
    source_cluster: Cluster,
    target_cluster: Cluster,
) -> Iterator[Pipeline]:
    with make_backlog(source_cluster, target_cluster) as pipeline:
        yield pipeline


@pytest.fixture
def backlog(_backlog: Pipeline, _numbers: Iterator[int]) -> Iterator[Pipeline]:
    """Return a spool of transactions over several tables that nobody has replayed."""
    target = clone(_backlog.target, f"backlog_{next(_numbers)}")
    yield Pipeline(_backlog.source, target)
    # The origin belongs to the database that was cloned.
    target.execute("delete from replication.source")
    target.drop()
