"""Work off tables about whose DDL a person decided, while replay goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pgrepl.postgres.connect import Connection
from pgrepl.replayer.parked.work_off import settle_decided
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.store.parked_ddl import find_decided
from pgrepl.store.sources import SourceRow

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.ddl_capture import Applier

__all__ = ["Settler"]

#: So often the target is asked whether something was decided.
_INTERVAL_S = 2.0


class Settler:
    """Looks for decisions now and then."""

    def __init__(self, config: Config, ddl: Applier, settings: ReplaySettings) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._ddl = ddl
        self._settings = settings
        self._look_at = 0.0

    def look_soon(self) -> None:
        """Have the next look be one: something that waited may not have to any more."""
        self._look_at = 0.0

    def look(self, control: Connection, sources: Iterable[SourceRow]) -> Sequence[SourceRow]:
        """Return the sources of which something was decided since the last look; call it often."""
        now = time.monotonic()
        if now < self._look_at:
            return ()
        self._look_at = now + _INTERVAL_S
        return [source for source in sources if find_decided(control, source.source_id)]

    def settle(self, _control: Connection, source: SourceRow) -> None:
        """Do what was decided of a source."""
        target = self._config.target.endpoint
        with closing(open_session(target, self._settings)) as connection:
            settle_decided(connection, self._config, source, self._ddl, self._settings)
