"""A source that is files: JSON lines, Avro and Parquet, read as they grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.receiver.files.folder import (
    check_known,
    envelope_state,
    find_files,
    lane_of,
    mark_of,
    new_partitions,
    told,
)
from pgrepl.receiver.files.history import FilesHistory
from pgrepl.receiver.files.stream import FilesStream
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.envelopes.make import make_envelope
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.retry import Past
from pgrepl.store.streams import Partition

__all__ = ["FilesSource"]


class FilesSource:
    """Reads a folder into the spool."""

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        """Read nothing yet."""
        self._config = config
        self._surroundings = surroundings

    def mark_end(self) -> Position:
        """Return a position that nothing lies after which is there now."""
        with told(self._config):
            return Lsn(sum(path.stat().st_size for path in find_files(self._config).values()))

    def close(self) -> None:
        """Keep nothing: files are opened when they are read."""

    @contextmanager
    def open(self, spool: SpoolSession, stop: Position | None) -> Iterator[FilesStream]:
        """Check that nothing of what was read has changed."""
        envelope = make_envelope(self._config, spool, lane_of)
        spool.set_format(envelope.format, "UTF8")
        files: dict[str, Path] = {}

        def look(known: Sequence[Partition]) -> Sequence[Partition]:
            with told(self._config):
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
        with told(self._config):
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
