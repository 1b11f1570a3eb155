"""One Spark session for all tests: it takes 5 to 9 seconds to start one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.basebackup.job import SessionInBackground
from pgrepl.config import SparkConfig
from pgrepl.spark import build_session


@pytest.fixture(scope="session", autouse=True)
def _one_session() -> Iterator[None]:
    session = build_session(SparkConfig(master="local[2]"), "pgrepl-test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionInBackground, "stop", lambda _: None)
        yield
    session.stop()
