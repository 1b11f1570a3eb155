"""A source that is files: JSON lines, Avro and Parquet, read as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.errors import SourceError, TargetError
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.receiver.files.folder import (
    by_table,
    check_known,
    envelope_state,
    find_files,
    lane_of,
    mark_of,
    new_partitions,
)
from pgrepl.receiver.files.history import FilesHistory
from pgrepl.receiver.files.reader import FileReader, open_reader
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.envelopes.make import make_envelope
from pgrepl.receiver.streams.handing import Handing, StoppedInside
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.receiver.streams.retry import Past
from pgrepl.store.streams import Partition

__all__ = ["FilesSource"]

_POLL_S = 0.5
_LOOK_S = 5.0


class FilesSource:
    """Reads a folder into the spool."""

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        """Read nothing yet."""
        self._config = config
        self._surroundings = surroundings

    def mark_end(self) -> Position:
        """Return a position that nothing lies after which is there now."""
        return Lsn(sum(path.stat().st_size for path in find_files(self._config).values()))

    @contextmanager
    def open(self, spool: SpoolSession, stop: Position | None) -> Iterator[FilesStream]:
        """Check that nothing of what was read has changed."""
        envelope = make_envelope(self._config, spool, lane_of)
        spool.set_format(envelope.format, "UTF8")
        files: dict[str, Path] = {}

        def look(known: Sequence[Partition]) -> Sequence[Partition]:
            found = find_files(self._config)
            check_known(self._config, known, found)
            files.update(found)
            fresh = new_partitions(known, found)
            spool.add_partitions(fresh)
            for own in fresh:
                envelope.restore((own.topic, own.partition), {}, 1)
            return fresh

        known = spool.read_partitions()
        for own in known:
            envelope.restore((own.topic, own.partition), envelope_state(own), 1)
        intake = self._make_intake(spool, envelope, [*known, *look(known)], files)
        stream = FilesStream(
            self._config,
            intake,
            files,
            lambda: look(spool.read_partitions()),
            self._surroundings,
            is_once=stop is not None,
        )
        try:
            yield stream
        finally:
            stream.close()

    @contextmanager
    def reopen(self, spool: SpoolSession) -> Iterator[Past]:
        """Open what was received, to read it again."""
        envelope = make_envelope(self._config, spool, lane_of)
        spool.set_format(envelope.format, "UTF8")
        known = spool.read_partitions()
        files = find_files(self._config)
        check_known(self._config, known, files)
        for own in known:
            envelope.restore((own.topic, own.partition), envelope_state(own), 1)
        intake = self._make_intake(spool, envelope, known, files)
        yield Past(envelope, intake, FilesHistory(self._config, files, known))

    def _make_intake(
        self,
        spool: SpoolSession,
        envelope: EnvelopeReader,
        partitions: Sequence[Partition],
        files: Mapping[str, Path],
    ) -> Intake:
        return Intake(
            spool,
            envelope,
            partitions,
            on_error=self._surroundings.on_error,
            limit_bytes=self._surroundings.settings.segment_bytes,
            mark_of=lambda place, offset: mark_of(files, place, offset),
        )


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
        self._tables = self._find_tables()
        self._readers: dict[str, FileReader] = {}
        #: Size and time of files when nothing was left to read.
        self._ended: dict[str, tuple[int, int]] = {}

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
            raise SourceError(
                f'source "{self._config.name}": cannot read {exc.filename}: {exc.strerror}',
                hint="Files that are received must stay where they are, and may only grow.",
            ) from exc

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
                for own in self._look():
                    self._intake.add(own)
                self._tables = self._find_tables()
                looked_at = time.monotonic()
        handing.finish()

    def _find_tables(self) -> Sequence[Sequence[str]]:
        there = {place[0] for place in self._intake.places} & self._files.keys()
        return by_table(there)

    def _read_table(self, names: Sequence[str]) -> bool:
        """Take some records of a table, of its first file that has any; False: none has."""
        return any(self._read(name) for name in names)

    def _read(self, name: str) -> bool:
        path = self._files[name]
        stat = path.stat()
        # It was read to its end, and did not grow.
        if self._ended.get(name) == (stat.st_size, stat.st_mtime_ns):
            return False
        if name not in self._readers:
            offset = self._intake.next_offset((name, 0))
            self._readers[name] = open_reader(name, path, offset, self._config.stream.key)
        records = self._readers[name].read()
        try:
            for record in records:
                self._intake.take(record)
        except TableMissingError as exc:
            raise TargetError(
                f'source "{self._config.name}": {name} has records without a schema, and the'
                f" target has no table {shown_name(*exc.name)} for them",
                hint="Make it in the target's schema of the source, with a primary key.",
            ) from exc
        if not records:
            self._ended[name] = stat.st_size, stat.st_mtime_ns
            self._readers[name].close()
        return bool(records)
