"""What one resync has in hand: both sides, what is asked for, and tables."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config, SourceConfig
from pgrepl.postgres.connect import Connection
from pgrepl.resync.report import ResyncOptions
from pgrepl.store.resync.running_resyncs import ResyncRow
from pgrepl.store.sources import SourceRow

__all__ = ["Sides", "Whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A source and its target during one run."""

    config: Config
    source: SourceConfig
    options: ResyncOptions
    row: SourceRow
    #: Sessions that last for the whole run; the first holds the locks.
    target: Connection
    source_session: Connection

    @property
    def endpoint(self) -> Endpoint:
        """The target."""
        return self.config.target.endpoint

    @property
    def source_id(self) -> int:
        """The number of the source on the target."""
        return self.row.source_id


@dataclass(frozen=True, slots=True)
class Whole:
    """A table that is copied as a whole."""

    table: SourceTable
    resync: ResyncRow
