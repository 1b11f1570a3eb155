from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.database import Database
from tests.support.ddl.following import Following


@pytest.fixture
def follow(source: Database, target: Database) -> Callable[..., Following]:
    """Return a function that makes a source whose DDL is captured and followed."""

    def begin(**options: Any) -> Following:
        return Following(source, target, **options).begin()

    return begin
