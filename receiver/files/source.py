"""A source that is files: JSON lines with a key and a value each, read as they grow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.decoding.records.values import BadValue, json_text
from pgrepl.errors import TargetError
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.receiver.files.folder import check_known, find_files, new_partitions
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool_session import SpoolSession
from pgrepl.receiver.spool_writer import SpoolWriter
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.receiver.streams.make import make_envelope
from pgrepl.receiver.streams.record import Record

__all__ = ["FilesSource"]

_READ_BYTES = 1 << 20
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
        known = spool.read_partitions()
        files = find_files(self._config)
        check_known(self._config, known, files)
        fresh = new_partitions(known, files)
        spool.add_partitions(fresh)
        envelope = make_envelope(self._config, spool)
        spool.set_format(envelope.format, "UTF8")
        for own in (*known, *fresh):
            envelope.restore((own.topic, own.partition), own.state, 1)
        intake = Intake(spool, envelope, [*known, *fresh], self._surroundings.on_error)

        def look() -> Mapping[str, Path]:
            files = find_files(self._config)
            known = spool.read_partitions()
            check_known(self._config, known, files)
            fresh = new_partitions(known, files)
            spool.add_partitions(fresh)
            for own in fresh:
                envelope.restore((own.topic, own.partition), own.state, 1)
                intake.add(own)
            return files

        yield FilesStream(
            self._config, intake, files, look, self._surroundings, is_once=stop is not None
        )


class FilesStream:
    """An open folder."""

    def __init__(
        self,
        config: SourceConfig,
        intake: Intake,
        files: Mapping[str, Path],
        look: Callable[[], Mapping[str, Path]],
        surroundings: Surroundings,
        *,
        is_once: bool,
    ) -> None:
        """Read files from where the intake is; ``look`` finds those that were added."""
        self._config = config
        self._intake = intake
        self._files = files
        self._look = look
        self._settings = surroundings.settings
        self._wakeup = surroundings.wakeup
        self._notifier = surroundings.notifier
        self._is_once = is_once

    @property
    def start(self) -> Position:
        """Everything before it is in the spool already."""
        return self._intake.position

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or once to the end of every file."""
        looked_at = time.monotonic()
        while not self._wakeup.is_stopping:
            writer.raise_error()
            self._notifier.alive()
            if writer.pending_bytes > self._settings.in_flight_bytes:
                self._wakeup.wait(_POLL_S)
                continue
            found = [self._read(name, path) for name, path in self._files.items()]
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
                self._files = self._look()
                looked_at = time.monotonic()
        while not writer.is_idle and not self._wakeup.is_stopping:
            writer.raise_error()
            self._wakeup.wait(_POLL_S / 10)
        writer.raise_error()

    def _read(self, name: str, path: Path) -> bool:
        """Take some whole lines of a file; False: there is none."""
        offset = self._intake.next_offset((name, 0))
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(_READ_BYTES)
            if b"\n" not in data and len(data) == _READ_BYTES:
                data += file.readline()
        # A line without its end is still being written.
        data = data[: data.rfind(b"\n") + 1]
        at_us = time.time_ns() // 1000
        for line in data.splitlines(keepends=True):
            following = offset + len(line)
            try:
                self._intake.take(_record(name, offset, following, line, at_us))
            except TableMissingError as exc:
                raise TargetError(
                    f'source "{self._config.name}": {name} has records without a schema, and the'
                    f" target has no table {shown_name(*exc.name)} for them",
                    hint="Make it in the target's schema of the source, with a primary key.",
                ) from exc
            offset = following
        return bool(data)


def _record(name: str, offset: int, following: int, line: bytes, at_us: int) -> Record:
    """Cut a line into its key and its value; what is no such line is left to be refused."""
    key: bytes | None = None
    value: bytes | None = line
    try:
        parsed = json.loads(line, parse_float=Decimal)
        if isinstance(parsed, dict) and parsed.keys() <= {"key", "value"} and "key" in parsed:
            own = parsed["key"], parsed.get("value")
            key, value = (None if part is None else json_text(part).encode() for part in own)
    except (ValueError, BadValue, RecursionError):
        pass
    return Record((name, 0), offset, following, key, value, at_us)
