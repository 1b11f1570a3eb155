"""The files of a folder: which there are, and whether they are still what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.errors import SourceError
from pgrepl.store.streams import Partition
from pgrepl.terminal import command

__all__ = ["check_known", "find_files", "new_partitions"]

_SUFFIX = ".jsonl"
#: So much of its beginning tells a file from another that took its place.
_HEAD_BYTES = 4096


def find_files(config: SourceConfig) -> Mapping[str, Path]:
    """Return the files by their names in the folder: in it, or one folder deeper."""
    root = Path(config.stream.path)
    if not root.is_dir():
        raise SourceError(
            f'source "{config.name}": {root} is no folder',
            hint="Make it, or correct path in pgrepl.toml.",
        )
    found = [path for pattern in ("*", "*/*") for path in root.glob(pattern + _SUFFIX)]
    return {path.relative_to(root).as_posix(): path for path in sorted(found)}


def check_known(
    config: SourceConfig, known: Sequence[Partition], files: Mapping[str, Path]
) -> None:
    """Refuse files that are missing, shorter than what was read, or others by now."""
    for own in known:
        path = files.get(own.topic)
        if path is None:
            if own.next_offset:
                raise _changed(config, own, "does not exist any more")
            continue
        if path.stat().st_size < own.next_offset:
            raise _changed(config, own, f"is shorter than the {own.next_offset} bytes received")
        size, _, digest = own.incarnation.partition(":")
        if _digest(path, int(size)) != digest:
            raise _changed(config, own, "begins with other bytes than it did")


def new_partitions(known: Sequence[Partition], files: Mapping[str, Path]) -> Sequence[Partition]:
    """Return the files that nothing was received of."""
    names = {own.topic for own in known}
    fresh = []
    for name, path in files.items():
        if name not in names:
            size = min(path.stat().st_size, _HEAD_BYTES)
            fresh.append(Partition(name, 0, f"{size}:{_digest(path, size)}", 0, {}))
    return fresh


def _digest(path: Path, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()


def _changed(config: SourceConfig, own: Partition, what: str) -> SourceError:
    return SourceError(
        f'source "{config.name}": file {own.topic} {what}',
        hint="Files may only grow. To begin with what is there now:"
        f" {command('drop', config.name, '--with-data')}",
    )
