from __future__ import annotations

import pytest

from tests.support.database import Database


@pytest.fixture
def target(migrated_target: Database) -> Database:
    return migrated_target
