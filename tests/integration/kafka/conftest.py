"""Topics of one broker, and sources that read them into a migrated target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgrepl.throwaway import Broker
from tests.support.database import Database
from tests.support.streams.kafka import Stream, Topics


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker)


@pytest.fixture
def stream_of(topics: Topics, target: Database, tmp_path: Path) -> Callable[..., Stream]:
    """Return a function that makes a source of topics."""

    def make(*names: str, **settings: Any) -> Stream:
        given = {"bootstrap": topics.broker.bootstrap, "topics": list(names), **settings}
        return Stream(target, tmp_path, kind="kafka", **given)

    return make
