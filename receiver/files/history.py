"""Records of files that were received, read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.receiver.files.folder import by_table
from pgrepl.receiver.files.reader import open_reader
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.store.streams import Partition

__all__ = ["FilesHistory"]


class FilesHistory:
    """Reads files up to where the target is."""

    def __init__(
        self, config: SourceConfig, files: Mapping[str, Path], known: Sequence[Partition]
    ) -> None:
        """Take what says where the target is."""
        self._key = config.stream.key
        self._files = files
        self._ends = {own.topic: own.next_offset for own in known if own.topic in files}

    def has(self, place: Place, _offset: int) -> bool:
        """Whether a file is there: it has all that it ever had."""
        return place[0] in self._ends

    def read(self, place: Place, first: int) -> Iterator[Record]:
        """Return records of a file from an offset on, then those of the files after it."""
        (names,) = (group for group in by_table(self._ends) if place[0] in group)
        for name in names[names.index(place[0]) :]:
            yield from self._read(name, first if name == place[0] else 0)

    def _read(self, name: str, first: int) -> Iterator[Record]:
        with closing(open_reader(name, self._files[name], first, self._key)) as reader:
            while records := reader.read():
                for record in records:
                    if record.offset >= self._ends[name]:
                        return
                    yield record
