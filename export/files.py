"""Files of JSON lines by table and day; each is there whole or not at all.

A batch is written into a folder of its own beside the tables and flushed to disk. Once the target
has noted which files it has, each is moved to its place; a run that is killed meanwhile leaves the
rest of the moves to the next.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from pgrepl.errors import ConfigError
from pgrepl.export.json_records import JsonWriter
from pgrepl.export.record import Record
from pgrepl.failpoint import reach

__all__ = ["JsonLines", "place_of"]

_SUFFIX = ".jsonl"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: So many files are open at a time; the others are opened again to add to them.
_OPEN_FILES = 100


def place_of(record: Record) -> str:
    """Return the folder of a record: its table, and the day of its commit."""
    name = "transaction" if record.name is None else ".".join(map(_safe, record.name))
    day = _EPOCH + timedelta(microseconds=record.at_us)
    return f"{name}/day={day:%Y-%m-%d}"


def _safe(name: str) -> str:
    # A name may have a slash or a dot, and must not leave the folder.
    return quote(name, safe=" ").replace(".", "%2E")


class JsonLines:
    """A folder as the destination of an export."""

    def __init__(self, root: Path, consumer: str, *, has_schemas: bool, is_new: bool) -> None:
        """Write into a folder, which is made; a new export wants it to be empty."""
        self._root = root
        self._aside = root / f".{_safe(consumer)}"
        self._writer = JsonWriter(has_schemas=has_schemas)
        self._open: dict[str, BinaryIO] = {}
        #: Folders that the batch in hand has a file for, and what that is called meanwhile.
        self._places: dict[str, str] = {}
        self._moves: Mapping[str, str] = {}
        try:
            self._aside.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(
                f"cannot write into {root}: {exc.strerror}", hint="Give --to a folder of yours."
            ) from exc
        if is_new and any(path != self._aside for path in root.iterdir()):
            raise ConfigError(
                f"{root} is not empty, and a new export would mix its files with others",
                hint="Give --to an empty folder.",
            )

    @property
    def is_empty(self) -> bool:
        """Whether the batch in hand has no record."""
        return not self._places

    def recover(self, prepared: Mapping[str, Any] | None, batch: int) -> bool:  # noqa: ARG002
        """Finish the moves of an earlier run, and remove what it had not prepared."""
        if prepared is not None:
            self._moves = prepared["sink"]["files"]
            self.commit()
        self._remove_aside()
        return prepared is not None

    def write(self, record: Record) -> None:
        """Add a line."""
        if record.is_tombstone:
            return
        key = self._writer.key(record)
        value = self._writer.value(record)
        line = b'{"key":%b,"value":%b' % (key or b"null", value or b"null")
        if record.headers:
            headers = (
                b'"%b":%b' % (name.encode(), self._writer.header(record, own))
                for name, own in record.headers.items()
            )
            line += b',"headers":{%b}' % b",".join(headers)
        self._file(place_of(record)).write(line + b"}\n")

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Flush the files of the batch to disk."""
        moves = {}
        with ExitStack() as stack:
            for file in self._open.values():
                stack.callback(file.close)
        self._open.clear()
        for place, aside in self._places.items():
            _flush(self._aside / aside)
            moves[aside] = f"{place}/{batch:012d}{_SUFFIX}"
        _flush(self._aside)
        self._moves = moves
        return {"files": moves}

    def commit(self) -> None:
        """Move each file to its place."""
        for aside, place in self._moves.items():
            found, final = self._aside / aside, self._root / place
            if not found.exists():
                if not final.exists():
                    raise ConfigError(
                        f"file {final} does not exist, nor what it was to be made of",
                        hint="Did another program remove it? Start over with --restart.",
                    )
                continue
            final.parent.mkdir(parents=True, exist_ok=True)
            found.rename(final)
            reach("export.between_files")
            _flush(final.parent)
            _flush(final.parent.parent)
        _flush(self._root)
        self._moves = {}
        self._places = {}

    def close(self) -> None:
        """Give up what is not prepared."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        self._places = {}

    def _file(self, place: str) -> BinaryIO:
        file = self._open.get(place)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            aside = self._places.setdefault(place, str(len(self._places)))
            file = self._open[place] = (self._aside / aside).open("ab")
        return file

    def _remove_aside(self) -> None:
        for path in self._aside.iterdir():
            path.unlink()


def _flush(path: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
