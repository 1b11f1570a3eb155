"""NaN and Infinity in changes, where the plugin cannot print them."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.receiver.routing import Route, TableName

__all__ = ["restore_floats"]

_LOST = "NaN or Infinity arrived as null: wal2json before 2.6 cannot print it"


def restore_floats(
    message: bytes, route: Route, specials: Sequence[bytes], losses: dict[TableName, str]
) -> bytes:
    """Put special values back that the plugin told of, or note that they are lost."""
    floats = route.floats
    if specials:
        restored = None if floats is None else floats.restore(message, tuple(specials))
        if restored is not None:
            return restored
        losses.setdefault(route.name, _LOST)
    elif floats is not None and floats.has_lost(message):
        losses.setdefault(route.name, _LOST)
    return message
