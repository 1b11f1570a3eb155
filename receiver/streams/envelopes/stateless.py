"""What an envelope answers that keeps nothing besides offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgrepl.lsn import Lsn
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.record import Place

__all__ = ["Stateless"]


class Stateless:
    """Keeps nothing, opens nothing, and has next to nothing waiting."""

    def state_of(self, place: Place) -> Mapping[str, Any]:  # noqa: ARG002  nothing is kept
        """Return nothing."""
        return {}

    def is_full(self, place: Place) -> bool:  # noqa: ARG002  little waits
        """Return False."""
        return False

    def end_again(self, gathered: Gathered) -> None:
        """Nothing waits."""

    @property
    def source_lsn(self) -> Lsn | None:
        """Return None: nothing tells."""
        return None

    def close(self) -> None:
        """Nothing is open."""
