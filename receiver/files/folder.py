"""The files of a folder: which there are, and whether they are still what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgrepl.config.model import SourceConfig
from pgrepl.errors import SourceError
from pgrepl.receiver.files.reader import SUFFIXES
from pgrepl.receiver.streams.envelopes.envelope import table_of
from pgrepl.receiver.streams.record import Place
from pgrepl.store.streams import Partition
from pgrepl.terminal import command, printable

__all__ = [
    "by_table",
    "check_known",
    "envelope_state",
    "find_files",
    "lane_of",
    "mark_of",
    "new_partitions",
    "told",
    "unreadable",
]

#: So much of its beginning tells a file from another that took its place ...
_HEAD_BYTES = 4096
#: ... and so much before the place that was read up to.
_TAIL_BYTES = 4096
#: Where the digest of that is kept, with what else is known of a file.
_TAIL = "tail"
_PARQUET, _PARQUET_MAGIC = ".parquet", b"PAR1"


def find_files(config: SourceConfig) -> Mapping[str, Path]:
    """Return the files by their names in the folder: in it, or in the folder of a table.

    Such a folder may be divided by days and the like, in folders that are named ``name=value``.
    """
    root = Path(config.stream.path)
    if not root.is_dir():
        raise SourceError(
            f'source "{config.name}": {root} is no folder',
            hint="Make it, or correct path in pgrepl.toml.",
        )
    found = [
        path
        for pattern in ("*", "*/*", "*/*=*/*", "*/*=*/*=*/*")
        for path in root.glob(pattern)
        # Hidden files are those that others still write, or their checksums.
        if path.suffix in SUFFIXES
        and not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
        and path.is_file()
    ]
    names = {path.relative_to(root).as_posix(): path for path in sorted(found)}
    for name in names:
        _check_name(config, name)
    return names


def _check_name(config: SourceConfig, name: str) -> None:
    """Refuse a name that the target cannot keep."""
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise SourceError(
            f'source "{config.name}": the name of file {printable(name)} is not in UTF-8',
            hint="Rename it, or take it out of the folder.",
        ) from exc


def unreadable(config: SourceConfig, exc: OSError) -> SourceError:
    """Return the error for a file that the system does not let us read."""
    return SourceError(
        f'source "{config.name}": cannot read {exc.filename}: {exc.strerror}',
        hint="Files that are received must stay where they are, and may only grow.",
    )


@contextmanager
def told(config: SourceConfig) -> Iterator[None]:
    """Raise what the file system says as an error of the source."""
    try:
        yield
    except OSError as exc:
        raise unreadable(config, exc) from exc


def by_table(names: Iterable[str]) -> Sequence[Sequence[str]]:
    """Return the files of each table, in the order in which they are read: that of their names."""
    groups: dict[Place, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(lane_of((name, 0)), []).append(name)
    return list(groups.values())


def lane_of(place: Place) -> Place:
    """Return what the files of a table are one stream of."""
    return "/".join(table_of(place[0])), 0


def check_known(
    config: SourceConfig, known: Sequence[Partition], files: Mapping[str, Path]
) -> None:
    """Refuse files that are missing, shorter than what was read, or others by now."""
    for own in known:
        path = files.get(own.topic)
        if path is None:
            if own.next_offset:
                raise _changed(config, own.topic, "does not exist any more")
            continue
        size, _, digest = own.incarnation.partition(":")
        found = path.stat().st_size
        if path.suffix == _PARQUET:
            if _digest(path, found) != digest or int(size) != found:
                raise _changed(config, own.topic, "is another one than it was")
            continue
        if found < own.next_offset:
            raise _changed(
                config, own.topic, f"is shorter than the {own.next_offset} bytes received"
            )
        if _digest(path, int(size)) != digest:
            raise _changed(config, own.topic, "begins with other bytes than it did")
        tail = own.state.get(_TAIL)
        if tail is not None and tail != _tail(path, own.next_offset):
            raise _changed(config, own.topic, "has other bytes where it was received")


def new_partitions(known: Sequence[Partition], files: Mapping[str, Path]) -> Sequence[Partition]:
    """Return the files that nothing was received of; one that is being written is not whole."""
    names = {own.topic for own in known}
    return [
        Partition(name, 0, _incarnation(path), 0, {})
        for name, path in files.items()
        if name not in names and _is_there(path)
    ]


def mark_of(files: Mapping[str, Path], place: Place, offset: int) -> Mapping[str, object]:
    """Return what tells later that a file is still what was read of it."""
    path = files.get(place[0])
    if path is None or path.suffix == _PARQUET:
        return {}
    return {_TAIL: _tail(path, offset)}


def envelope_state(own: Partition) -> Mapping[str, object]:
    """Return what was kept for the envelope."""
    return {name: value for name, value in own.state.items() if name != _TAIL}


def _is_there(path: Path) -> bool:
    """Whether a file can be read: Parquet's have their schema at the end."""
    if path.suffix != _PARQUET:
        return True
    with path.open("rb") as file:
        if file.seek(0, 2) < 2 * len(_PARQUET_MAGIC):
            return False
        file.seek(-len(_PARQUET_MAGIC), 2)
        return file.read() == _PARQUET_MAGIC


def _incarnation(path: Path) -> str:
    size = path.stat().st_size
    if path.suffix != _PARQUET:
        size = min(size, _HEAD_BYTES)
    return f"{size}:{_digest(path, size)}"


def _digest(path: Path, size: int) -> str:
    """Return what tells the beginning of a file; of a big one also what tells its end."""
    with path.open("rb") as file:
        data = file.read(min(size, _HEAD_BYTES))
        if size > _HEAD_BYTES:
            file.seek(max(_HEAD_BYTES, size - _TAIL_BYTES))
            data += file.read(_TAIL_BYTES)
    return hashlib.sha256(data).hexdigest()


def _tail(path: Path, offset: int) -> str:
    first = max(0, offset - _TAIL_BYTES)
    with path.open("rb") as file:
        file.seek(first)
        return hashlib.sha256(file.read(offset - first)).hexdigest()


def _changed(config: SourceConfig, name: str, what: str) -> SourceError:
    return SourceError(
        f'source "{config.name}": file {name} {what}',
        hint="Files may only grow. To begin with what is there now:"
        f" {command('drop', config.name, '--with-data')}",
    )
