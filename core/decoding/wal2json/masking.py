"""Columns of a line masked before the line is kept anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pgrepl.config.rules import Mask
from pgrepl.decoding.wal2json.grammar import map_values
from pgrepl.masking import mask_value

__all__ = ["mask_line"]

_NULL = b"null"
_QUOTE = b'"'
#: What wal2json prints without quotes.
_BARE = re.compile(rb"true|false|-?[0-9]+(?:\.[0-9]+)?")


def mask_line(line: bytes, masks: Mapping[str, Mask], codec: str) -> bytes:
    """Return a change with columns masked or taken out, in new row and old identity alike."""

    def change(name: str, value: bytes) -> bytes | None:
        mask = masks.get(name)
        if mask is not None and mask.kind == "omit":
            return None
        return value if mask is None else _masked(mask, value, codec)

    return map_values(line, codec, change)


def _masked(mask: Mask, value: bytes, codec: str) -> bytes:
    is_text = value.startswith(_QUOTE)
    # Escapes are of ASCII alone, and this codec keeps every other byte.
    text = json.loads(value.decode("latin-1")).encode("latin-1") if is_text else value
    masked = mask_value(mask, None if value == _NULL else text, codec)
    if masked is None:
        return _NULL
    if not is_text and _BARE.fullmatch(masked):
        return masked
    return json.dumps(masked.decode("latin-1"), ensure_ascii=False).encode("latin-1")
