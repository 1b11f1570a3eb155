"""What reads files of one format, and which format a file has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from pgrepl.errors import ConfigError, SourceError
from pgrepl.receiver.streams.record import Record

__all__ = [
    "SUFFIXES",
    "CorruptedFileError",
    "FileReader",
    "MakeReader",
    "corrupted",
    "open_reader",
]

#: Module and class by the end of a file's name; some need more packages.
_READERS: Mapping[str, tuple[str, str, str]] = {
    ".jsonl": ("pgrepl.receiver.files.json_lines", "JsonLines", ""),
    ".avro": ("pgrepl.receiver.files.avro_blocks", "AvroBlocks", "kafka"),
    ".parquet": ("pgrepl.receiver.files.parquet_rows", "ParquetRows", "parquet"),
}
SUFFIXES = tuple(_READERS)


class CorruptedFileError(SourceError):
    """A file of which nothing more can be read."""


class FileReader(Protocol):
    """Reads a file from where it was left."""

    @property
    def offset(self) -> int:
        """Nothing is left to be read before it."""

    @property
    def is_whole(self) -> bool:
        """Whether the file ended where a record does, when nothing more was there to read."""

    def read(self) -> Sequence[Record]:
        """Return the next records, a bounded number of them; none: there are no more for now.

        Raises
        ------
        CorruptedFileError
            when nothing after this can be read.

        """

    def close(self) -> None:
        """Let go of the file."""


#: Makes a reader of a file by its name in the folder, its path, an offset, and its key.
MakeReader = Callable[[str, Path, int, Sequence[str]], FileReader]


def open_reader(name: str, path: Path, offset: int, key: Sequence[str]) -> FileReader:
    """Return what reads a file from an offset on.

    Raises
    ------
    ConfigError
        when a package is missing that its format needs.

    """
    module, kind, extra = _READERS[path.suffix]
    try:
        make: MakeReader = getattr(import_module(module), kind)
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"cannot read {name}: package {exc.name} is missing",
            hint=f"Install pgrepl with it: pip install 'pgrepl[{extra}]'",
        ) from exc
    return make(name, path, offset, key)


def corrupted(name: str, what: str) -> CorruptedFileError:
    """Return the error for a file of which nothing more can be read."""
    return CorruptedFileError(
        f"file {name} {what}",
        hint="Nothing of its table after it is received. Write it again under another name and"
        " remove it; see docs/kafka.md.",
    )
