"""A thread that looks at all servers again and again, so that nobody who asks waits for one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config
from pgrepl.errors import PgreplError
from pgrepl.monitor.recorder import Recorder
from pgrepl.monitor.snapshot import Snapshot, Trouble
from pgrepl.status import read_status
from pgrepl.status.looks import Looks

__all__ = ["INTERVAL_S", "Watcher"]

logger = logging.getLogger(__name__)

#: Between two looks.
INTERVAL_S = 5.0

#: Of the time, so much at most goes into looking: one at a huge spool may take seconds.
_SHARE = 0.1

#: After this time without the end of a look, the watcher itself is not well.
_STUCK_S = 60.0


class Watcher:
    """Looks at sources until it is stopped; ``snapshot`` is what it knows."""

    def __init__(
        self,
        config: Config,
        names: Sequence[str] | None = None,
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Prepare to look at some sources, or at all, those included that only the target knows."""
        self.interval_s = interval_s
        self.snapshot = Snapshot()
        self._config = config
        self._names = names
        #: Who writes down what was read, and tells of it.
        self.recorder: Recorder | None = None
        self._looks = Looks()
        self._began_at = time.monotonic()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgrepl-watcher", daemon=True)

    @property
    def target(self) -> Endpoint:
        """The target of the configuration."""
        return self._config.target.endpoint

    def reload(self, config: Config) -> None:
        """Go on with another configuration, from the next look on."""
        self._config = config

    def start(self) -> None:
        """Begin to look, in a thread that does not keep the program from ending."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look in hand is left to its end."""
        self._is_stopping.set()

    @property
    def is_well(self) -> bool:
        """Whether the thread still looks; servers that are down do not matter for that."""
        return self._thread.is_alive() and time.monotonic() - self._began_at < _STUCK_S

    def look(self) -> None:
        """Look once."""
        self._began_at = began_at = time.monotonic()
        before, config, names = self.snapshot, self._config, self._names
        sources = [
            source for name, source in config.sources.items() if names is None or name in names
        ]
        try:
            status = read_status(
                config, sources, others="all" if names is None else (), looks=self._looks
            )
        except PgreplError as exc:
            trouble = Trouble.of(exc, before.trouble)
            if before.trouble is None or before.trouble.message != trouble.message:
                logger.warning("monitor: %s", exc.message, extra={"hint": exc.hint})
            found = replace(before, trouble=trouble)
        else:
            if before.trouble is not None:
                logger.info("monitor: the target answers again")
            seen = {
                source.name: (status.at, source.source)
                for source in status.sources
                if source.source is not None
            }
            found = Snapshot(status=status, last_seen={**before.last_seen, **seen})
            if self.recorder is not None:
                self.recorder.take(status, config)
        seconds = time.monotonic() - began_at
        self.snapshot = replace(found, number=before.number + 1, seconds=seconds)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self.look()
            except Exception as exc:  # noqa: BLE001  the next look may succeed
                # The text may hold a value.
                logger.error("monitor: unforeseen %s", type(exc).__name__)  # noqa: TRY400
            pause_s = max(self.interval_s, self.snapshot.seconds / _SHARE)
            self._is_stopping.wait(pause_s)
