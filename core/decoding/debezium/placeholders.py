"""What Debezium sends for a value that is unchanged and stored out of line."""

from __future__ import annotations

import base64
import hashlib
import uuid

__all__ = ["Placeholder"]


class Placeholder:
    """Tells whether a value only stands for one that did not change."""

    def __init__(self, text: str = "__debezium_unavailable_value") -> None:
        """Take Debezium's ``unavailable.value.placeholder``."""
        data = text.encode()
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        # Java's UUID.nameUUIDFromBytes.
        digest[6] = digest[6] & 0x0F | 0x30
        digest[8] = digest[8] & 0x3F | 0x80
        self._scalars = frozenset({text, base64.b64encode(data).decode()})
        self._bytes = data
        self._lists: tuple[list[object], ...] = (
            [text],
            list(data),
            [str(uuid.UUID(bytes=bytes(digest)))],
        )
        self._map = {text: text}

    def stands_for(self, value: object) -> bool:
        """Whether a value is a placeholder."""
        if isinstance(value, str):
            return value in self._scalars
        if isinstance(value, bytes):
            return value == self._bytes
        if isinstance(value, list):
            return value in self._lists
        return isinstance(value, dict) and value == self._map
