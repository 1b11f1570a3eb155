"""A source and its copy, and a housekeeper that sees to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pgrepl.config.dsn import Side
from pgrepl.config.file import load_config
from pgrepl.config.model import Config
from pgrepl.housekeeping import Housekeeper
from pgrepl.postgres.connect import connect
from pgrepl.store.sources import SourceRow, find_source
from tests.support.database import Database
from tests.support.running.receiving import make_cluster, stream_alone, stream_from
from tests.support.running.streaming import Streaming

__all__ = ["household", "make_cluster", "stream_alone", "stream_from"]


@dataclass
class Household:
    streaming: Streaming

    @property
    def source(self) -> Database:
        return self.streaming.source

    @property
    def target(self) -> Database:
        return self.streaming.target

    @property
    def row(self) -> SourceRow:
        with connect(self.target.endpoint(Side.TARGET), "test") as connection:
            row = find_source(connection, self.streaming.name)
        assert row is not None
        return row

    def config(self, **settings: object) -> Config:
        """Return the configuration with these settings of ``[housekeeping]``."""
        self.streaming.write_config()
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        with self.streaming.config.open("a", encoding="utf-8") as file:
            file.write("\n".join(["[housekeeping]", *lines]) + "\n")
        return load_config(self.streaming.config)

    def keep_house(self, **settings: object) -> None:
        """Let a housekeeper do all that is due, to the end."""
        keeper = Housekeeper(self.config(**settings))
        keeper.caught_up(self.row)
        keeper.stop(None)

    def execute_on_both(self, *statements: str) -> None:
        """Run statements on the source, and with its schema's name there on the target."""
        for statement in statements:
            self.source.execute(statement.replace("app.", "public."))
            self.target.execute(statement.replace("app.", "shop_public."))


@pytest.fixture
def household(source: Database, stream_from: Callable[..., Streaming]) -> Household:
    """Return a source whose schema "public" is the target's "shop_public"; both are empty."""
    streaming = stream_from(source)
    streaming.target.execute(
        "create schema shop_public",
        "insert into replication.target_schema"
        f" values ('shop_public', {streaming.source_id}, 'public')",
    )
    return Household(streaming)
