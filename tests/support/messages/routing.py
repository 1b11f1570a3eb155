"""Frames taken as the receiver's loops do: by the compiled core, and by Python what that leaves."""

from __future__ import annotations

from collections.abc import Iterable

from pgrepl.native import native
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.slot.protocol import XLOG_DATA_FRAMING, Framing

take_by_python = Assembler.take


def take_by_core(
    assembler: Assembler, frames: Iterable[memoryview], framing: Framing = XLOG_DATA_FRAMING
) -> bool:
    """Do what ``Assembler.take`` does."""
    assert native is not None
    left = list(frames)
    while left:
        if assembler.can_route:
            routed = assembler.route(native, left, 1 << 40, framing)
            del left[: routed.message_count]
            assert routed.frame == (bytes(left[0]) if left else None)
        if left:
            take_by_python(assembler, [left.pop(0)], framing)
    return assembler.is_finished or bool(assembler.ready)
