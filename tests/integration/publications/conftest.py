"""A source whose table is published."""

from __future__ import annotations

import pytest

from tests.support.running.publishing import KEYED, members, publish


@pytest.fixture
def published(source):
    source.execute(KEYED)
    publish(source)
    assert members(source) == ["t"]
    return source
