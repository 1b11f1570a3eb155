"""What one resync has in hand: both sides, what is asked for, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import NameClashError
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.waiting import saying_for_whom
from pgrepl.store.resync.running_resyncs import ResyncRow
from pgrepl.store.sources import SourceRow
from pgrepl.store.tables.source_names import Mention, source_names

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
    #: The resyncs of the run, when they are noted.
    resync_ids: Sequence[int] = ()

    @property
    def endpoint(self) -> Endpoint:
        """The target."""
        return self.config.target.endpoint

    @property
    def source_id(self) -> int:
        """The number of the source on the target."""
        return self.row.source_id

    def saying_for_whom(
        self, waiting: Connection, patience_s: float | None = None
    ) -> AbstractContextManager[None]:
        """Say for whom the session on the target waits inside the block, or one on the source."""
        endpoint = self.endpoint if waiting is self.target else self.source.endpoint
        return saying_for_whom((endpoint, waiting), self.endpoint, self.resync_ids, patience_s)

    @contextmanager
    def source_names(self, texts: Iterable[str] | None = None) -> Iterator[None]:
        """Give copies that some texts name, or all, the names of their tables.

        In the target's open transaction, until the block ends.

        Raises
        ------
        TargetError
            when something else has a name that a copy is to have.

        """
        mention = Mention() if texts is None else Mention.of(texts)
        try:
            with source_names(self.target, self.source_id, self.source.rules, mention):
                yield
        except NameClashError as exc:
            raise TargetError(
                f"{self.endpoint}: {exc}",
                hint="Rename it, or choose another name in the rules, and run the same command.",
            ) from exc


@dataclass(frozen=True, slots=True)
class Whole:
    """A table that is copied as a whole."""

    table: SourceTable
    resync: ResyncRow
