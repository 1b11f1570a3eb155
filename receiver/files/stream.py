"""The loop that reads files and hands batches to the writer.

Files of a table are one stream: one that cannot be read on holds up those after it, and no other
table.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.errors import PgreplError, SourceError, TargetError
from pgrepl.position import Position
from pgrepl.receiver.files.folder import by_table, unreadable
from pgrepl.receiver.files.reader import CorruptedFileError, FileReader, open_reader
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.streams.handing import Handing, StoppedInside
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.store.streams import Partition

__all__ = ["FilesStream"]

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_LOOK_S = 5.0


class FilesStream:
    """An open folder."""

    def __init__(
        self,
        config: SourceConfig,
        intake: Intake,
        files: Mapping[str, Path],
        look: Callable[[], Sequence[Partition]],
        surroundings: Surroundings,
        *,
        is_once: bool,
    ) -> None:
        """Read files from where the intake is; ``look`` finds those that were added."""
        self._config = config
        self._intake = intake
        self._files = files
        self._look = look
        self._surroundings = surroundings
        self._wakeup = surroundings.wakeup
        self._is_once = is_once
        self._tables = by_table(files)
        #: Those of them that can be read.
        self._known = {topic for topic, _ in intake.places}
        self._readers: dict[str, FileReader] = {}
        #: Size and time of files when nothing was left to read.
        self._ended: dict[str, tuple[int, int]] = {}
        #: Which file a name stands for: what takes its place is not what was read.
        self._identities: dict[str, tuple[int, int]] = {}
        #: Tables that cannot be read on for now, by their first file, and why.
        self._held: dict[str, PgreplError] = {}
        #: Files of which was told that they are not whole.
        self._told: set[str] = set()

    @property
    def start(self) -> Position:
        """Everything before it is in the spool already."""
        return self._intake.position

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or once to the end of every file."""
        handing = Handing(writer, self._surroundings)
        self._intake.attach(handing.put_part)
        try:
            with suppress(StoppedInside):
                self._run(writer, handing)
        except OSError as exc:
            raise unreadable(self._config, exc) from exc

    def close(self) -> None:
        """Close what is open."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _run(self, writer: SpoolWriter, handing: Handing) -> None:
        looked_at = time.monotonic()
        while not self._wakeup.is_stopping:
            handing.check()
            if handing.is_full:
                self._wakeup.wait(_POLL_S)
                continue
            found = [self._read_table(names) for names in self._tables]
            is_any = any(found)
            if not is_any:
                self._intake.settle()
            if self._intake.has_changes or self._intake.has_moved:
                writer.put(self._intake.batch())
            if is_any:
                continue
            if self._is_once:
                break
            self._wakeup.wait(_POLL_S)
            if writer.is_idle and time.monotonic() - looked_at > _LOOK_S:
                self._look_again()
                looked_at = time.monotonic()
        handing.finish()
        if self._held and not self._wakeup.is_stopping:
            raise next(iter(self._held.values()))

    def _look_again(self) -> None:
        """Find files that were added, and try those again that could not be read."""
        for own in self._look():
            self._intake.add(own)
            self._known.add(own.topic)
        self._tables = by_table(self._files)
        # Those that took the place of others are what was read of them.
        self._identities.clear()
        self._held.clear()

    def _read_table(self, names: Sequence[str]) -> bool:
        """Take some records of a table, of its first file that has any; False: none has."""
        if names[0] in self._held:
            return False
        error: PgreplError
        for number, name in enumerate(names, start=1):
            try:
                if self._read(name, names[number:]):
                    return True
                if self._is_whole(name):
                    continue
                if not any(map(self._has_more, names[number:])):
                    return False
                error = SourceError(
                    f'source "{self._config.name}": {name} ends inside of a record, and files of'
                    " its table after it wait for the rest",
                    hint="Is it still being written? Files of a table are read in the order of"
                    " their names; see docs/kafka.md.",
                )
            except TableMissingError as exc:
                error = TargetError(
                    f'source "{self._config.name}": {name} has records without a schema, and the'
                    f" target has no table {shown_name(*exc.name)} for them",
                    hint="Make it in the target's schema of the source, with a primary key.",
                )
            except CorruptedFileError as exc:
                error = exc
            except OSError as exc:
                error = unreadable(self._config, exc)
            self._hold(names[0], name, error)
            return False
        return False

    def _hold(self, table: str, name: str, error: PgreplError) -> None:
        """Leave the files of a table where they are for now; others go on."""
        if name not in self._told:
            self._told.add(name)
            logger.error(error.message, extra={"hint": error.hint})
        self._held[table] = error
        # What it has read beyond what is taken is read again.
        self._drop_reader(name)

    def _read(self, name: str, following: Sequence[str]) -> bool:
        """Take some records of a file; ``following``: those of its table that come after it."""
        path, place = self._files[name], (name, 0)
        if name not in self._known:
            self._tell_unfinished(name)
            return False
        stat = path.stat()
        identity = stat.st_dev, stat.st_ino
        if self._identities.setdefault(name, identity) != identity:
            raise CorruptedFileError(
                f'source "{self._config.name}": file {name} was replaced while it was read',
                hint="Files may only grow; see docs/kafka.md.",
            )
        # It was read to its end, and did not grow.
        if self._ended.get(name) == (stat.st_size, stat.st_mtime_ns):
            return False
        reader = self._readers.get(name)
        if reader is None:
            offset = self._intake.next_offset(place)
            reader = open_reader(name, path, offset, self._config.stream.key)
            self._readers[name] = reader
        records = reader.read()
        if records:
            self._check_late(name, following)
        for record in records:
            self._intake.take(record)
        # What stands between records moves no row.
        self._intake.pass_to(place, reader.offset)
        if not records:
            self._ended[name] = stat.st_size, stat.st_mtime_ns
            reader.close()
        return bool(records)

    def _check_late(self, name: str, following: Sequence[str]) -> None:
        """Refuse events of a file after some of a later one: they would count as sent again."""
        if self._config.stream.envelope != "debezium":
            return
        received = [own for own in following if own in self._known]
        late = next((own for own in received if self._intake.next_offset((own, 0))), None)
        if late is not None:
            raise CorruptedFileError(
                f'source "{self._config.name}": {name} has events that came when {late}, which is'
                " after it, was received already",
                hint="Files of a table are read in the order of their names, each to its end before"
                " the next. Write them to a file whose name comes last, if they are newer.",
            )

    def _has_more(self, name: str) -> bool:
        """Whether a file can be read that was not read to its end."""
        return name in self._known and name not in self._ended

    def _is_whole(self, name: str) -> bool:
        """Whether a file ends where a record does."""
        reader = self._readers.get(name)
        return reader is not None and reader.is_whole

    def _tell_unfinished(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            logger.warning("%s is not whole yet, and not received", name)

    def _drop_reader(self, name: str) -> None:
        reader = self._readers.pop(name, None)
        if reader is not None:
            reader.close()
        self._ended.pop(name, None)
