"""The compiled core: the loops that every message and every row goes through, in C.

It is optional. What it does stands in Python as well, where it is called: that is what it has to be
equal to, and what runs where no compiler was at hand when pgrepl was installed, on executors that
got our package as an archive, and with ``PGREPL_NATIVE=off``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

__all__ = ["PLACE_BYTES", "Connected", "Entry", "Native", "Routed", "describe", "native"]

#: The number of bytes in which ``Native.group_changes`` describes one change.
PLACE_BYTES = 8

#: Of what ``Native`` has; a module that was compiled for another version is not used.
_VERSION = 5

#: A column in a line: what stands before its value, the value's kind, whether it is of use.
Entry = tuple[bytes, str, bool]

#: A connection, PQgetCopyData and PQfreemem, by their addresses, and where notices gather.
Connected = tuple[int, int, int, list[tuple[str, str]]]


class Routed(NamedTuple):
    """What became of messages."""

    #: As libpq says it: 0 when none is left, less when none will come.
    status: int
    #: The first that was not taken, with its frame.
    frame: bytes | None
    #: Those that were taken, and their bytes.
    message_count: int
    byte_count: int


class Native(Protocol):
    """What ``module.c`` has; the C files say what each does.

    What is corrupted is a ``ValueError`` with a text that says what.
    """

    def deal(self, changes: list[Any], places: tuple[int, ...], count: int, /) -> list[list[Any]]:
        """Deal changes to slices by their keys: ``deal.c``."""

    def expand(self, payload: bytes, /) -> bytes:
        """Return lines with what they have in common: ``expand.c``."""

    def group_changes(self, payload: bytes, change_count: int, /) -> list[tuple[bytes, bytes]]:
        """Sort the messages of a payload by table: ``group.c``."""

    def has_fixed(self, changes: list[Any], new: tuple[int, ...], old: tuple[int, ...], /) -> bool:
        """Whether no update changes a key: ``deal.c``."""

    def join_rows(self, changes: list[Any], end: int, head: bytes, /) -> bytes:
        """Join the values of changes to rows of COPY: ``rows.c``."""

    def last_updates(
        self, pieces: list[tuple[bytes, bytes]], size: int, key_size: int, /
    ) -> list[bytes] | None:
        """Return the places of updates that no later one replaces: ``outdated.c``."""

    def read_changes(
        self,
        payload: bytes,
        places: bytes,
        size: int,
        new_places: Sequence[int],
        old_places: Sequence[int],
        /,
    ) -> tuple[list[Any], bool]:
        """Read the changes of a table: ``tuples.c``."""

    def read_lines(
        self,
        text: bytes,
        table: bytes,
        new: Sequence[Entry],
        old: Sequence[Entry],
        key: Sequence[tuple[int, int]],
        /,
    ) -> tuple[int, list[Any], bool]:
        """Read the lines of a table: ``lines.c``."""

    def route(
        self,
        flow: Any,  # noqa: ANN401  of the receiver
        frames: list[memoryview] | Connected,
        wanted_bytes: int,
        frame_bytes: int,
        /,
    ) -> tuple[int, bytes | None, int, int]:
        """Sort messages into buckets: ``route.c``."""

    def shorten(self, lines: list[bytes], /) -> bytes | None:
        """Return lines without what they have in common: ``shorten.c``."""


def _load() -> Native | None:
    if os.environ.get("PGREPL_NATIVE") == "off":
        return None
    try:
        found: Any = import_module("pgrepl.native._native")
    except ImportError:
        return None
    return cast("Native", found) if found.VERSION == _VERSION else None


#: The module; None where there is none, or it is not to be used.
native: Native | None = _load()


def describe() -> str:
    """Return which of the two is in use, for people."""
    return "Python" if native is None else "C"
