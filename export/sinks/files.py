"""Files by table and day; each is there whole or not at all.

A batch is written into a folder of its own beside the tables and flushed to disk. Once the target
has noted which files it has, each is moved to its place; a run that is killed meanwhile leaves the
rest of the moves to the next. The folder has the number of its last batch: a target that lost its
position is not followed.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pgrepl.errors import ConfigError, SpoolError, TargetUnavailable
from pgrepl.export.record import Record, Schemas
from pgrepl.export.sinks.file_formats import FileFormat, OpenFile
from pgrepl.export.tables import TableName
from pgrepl.failpoint import reach

__all__ = ["FileSink", "table_folder"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The number of files that are open at a time; the others are opened again to add to them.
_OPEN_FILES = 100
#: Beside what is not in its place yet.
_NOTE = "batch"
#: What passes when there is room, or a file system answers again.
_PASSES = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE}
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Which file: of a folder, and of one structure where the format wants that."""

    folder: str
    #: Files of a batch in one folder follow one another by it.
    number: int
    schemas: Schemas | None


def table_folder(name: TableName | None) -> str:
    """Return the folder of a table, or of the records that tell of transactions.

    Programs that read a folder of tables pass over names that begin so.
    """
    return "_transaction" if name is None else ".".join(map(_safe, name))


def _safe(name: str) -> str:
    # A name may have a slash or a dot, and must not leave the folder.
    return quote(name, safe=" ").replace(".", "%2E")


class FileSink:
    """A folder as the destination of an export."""

    def __init__(self, root: Path, consumer: str, file_format: FileFormat, *, is_new: bool) -> None:
        """Write into a folder, which is made; a new export wants it to be empty."""
        self._root = root
        self._aside = root / f".{_safe(consumer)}"
        self._format = file_format
        self._open: dict[_Place, OpenFile] = {}
        #: The file that records of a folder go to now.
        self._current: dict[str, _Place] = {}
        #: The newest day of each table.
        self._days: dict[TableName | None, str] = {}
        #: Which files the batch in hand has, and what each is called meanwhile.
        self._places: dict[_Place, str] = {}
        self._moves: Mapping[str, str] = {}
        self._batch = 0
        with self._told():
            self._aside.mkdir(parents=True, exist_ok=True)
        if is_new and any(path != self._aside for path in root.iterdir()):
            raise ConfigError(
                f"{root} is not empty, and a new export would mix its files with others",
                hint="Give --to an empty folder.",
            )
        if is_new:
            self._note.unlink(missing_ok=True)

    @property
    def is_empty(self) -> bool:
        """Whether the batch in hand has no record."""
        return not self._places

    def recover(self, prepared: Mapping[str, Any] | None, batch: int) -> bool:
        """Finish the moves of an earlier run, and remove what it had not prepared."""
        known = {batch} if prepared is None else {batch, batch + 1}
        noted = self._read_note()
        # A folder that has none is of a version that wrote none.
        if noted is not None and noted not in known:
            raise SpoolError(
                f"{self._root} has {noted} batches, the target says that there are {batch}",
                hint="Did one of them lose some, as by a failover or a restored backup? Start over"
                " with --restart --snapshot, and another folder.",
            )
        if prepared is not None:
            self._moves = prepared["sink"]["files"]
            self._batch = batch + 1
            self.commit()
        with self._told():
            self._remove_aside()
        return prepared is not None

    def write(self, record: Record) -> None:
        """Add a record to its file."""
        if record.is_tombstone:
            return
        with self._told():
            self._file(record).write(record)

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Flush the files of the batch to disk."""
        moves = {}
        with self._told():
            while self._open:
                self._open.popitem()[1].close()
            for place, aside in self._places.items():
                _flush(self._aside / aside)
                # In the order of names: "_" stands after the dot.
                number = f"_{place.number:06d}" if place.number else ""
                moves[aside] = f"{place.folder}/{batch:012d}{number}{self._format.suffix}"
            _flush(self._aside)
        self._moves, self._batch = moves, batch
        return {"files": moves}

    def commit(self) -> None:
        """Move each file to its place."""
        with self._told():
            self._commit()

    def _commit(self) -> None:
        self._write_note()
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
        self._forget()

    def close(self) -> None:
        """Give up what is not prepared."""
        for file in self._open.values():
            # What they could not write before they cannot now; nobody reads them.
            with suppress(OSError):
                file.close()
        self._open.clear()
        self._forget()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what the file system says as an error of the destination."""
        try:
            yield
        except OSError as exc:
            message = f"cannot write into {self._root}: {exc.strerror}"
            if exc.errno in _PASSES:
                raise TargetUnavailable(message, hint="Make room there; nothing is lost.") from exc
            raise ConfigError(message, hint="Give --to a folder of yours.") from exc

    def _forget(self) -> None:
        self._places = {}
        self._current.clear()
        # A batch that was given up may have begun a day that its next try does not.
        self._days.clear()

    def _file(self, record: Record) -> OpenFile:
        typed = record.schemas if self._format.is_typed else None
        folder = f"{table_folder(record.name)}/{self._day(record)}"
        place = self._current.get(folder)
        if place is None or place.schemas is not typed:
            # What follows does so in a file of its own, else the order would be lost.
            if place is not None and (ended := self._open.pop(place, None)) is not None:
                ended.close()
            number = 0 if place is None else place.number + 1
            place = self._current[folder] = _Place(folder, number, typed)
        file = self._open.get(place)
        if file is None:
            if len(self._open) >= _OPEN_FILES and self._format.can_append:
                self._open.pop(next(iter(self._open))).close()
            aside = self._places.setdefault(place, str(len(self._places)))
            file = self._open[place] = self._format.open(self._aside / aside, record.schemas)
        return file

    def _day(self, record: Record) -> str:
        """Return the day of a record's commit, or the newest that its table has.

        A clock may go back, and rows of a snapshot may be younger than what follows them; whoever
        reads the folders in their order is to find what was written in its order.
        """
        newest = self._days.get(record.name)
        if newest is None:
            there = self._root.glob(f"{glob.escape(table_folder(record.name))}/day=*")
            newest = max((path.name for path in there), default="")
        at = _EPOCH + timedelta(microseconds=record.at_us)
        day = self._days[record.name] = max(newest, f"day={at:%Y-%m-%d}")
        return day

    def _remove_aside(self) -> None:
        for path in self._aside.iterdir():
            if path != self._note:
                path.unlink()

    @property
    def _note(self) -> Path:
        return self._aside / _NOTE

    def _read_note(self) -> int | None:
        return int(self._note.read_text("utf-8")) if self._note.exists() else None

    def _write_note(self) -> None:
        """Note on disk which batch is moved, before its first file is."""
        fresh = self._aside / f"{_NOTE}.new"
        fresh.write_text(str(self._batch), "utf-8")
        _flush(fresh)
        fresh.rename(self._note)
        _flush(self._aside)


def _flush(path: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
