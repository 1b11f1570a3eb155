"""A disk that is soon full: a small file system in memory, as a tablespace of a cluster."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.throwaway import Cluster
from pgrepl.throwaway.unprivileged import server_account
from tests.support.database import Database


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Yield a folder of the server's account on a file system of its own. Mounting takes root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    folder = Path(tempfile.mkdtemp(prefix=f"pgrepl-disk-{os.getpid()}-", dir="/tmp"))
    folder.chmod(0o755)
    options = f"size={megabytes}m,mode=0755"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode != 0:
        folder.rmdir()
        pytest.skip("mounting is not allowed here")
    place = folder / "space"
    place.mkdir(mode=0o700)
    server_account().own(place)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def create_database_on(cluster: Cluster, place: Path, name: str) -> Database:
    """Make a database in a tablespace of the same name."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(
            SQL("create tablespace {} location {}").format(Identifier(name), Literal(str(place)))
        )
        connection.execute(SQL("create database {0} tablespace {0}").format(Identifier(name)))
    return Database(cluster, name)


@contextmanager
def database_on_small_disk(cluster: Cluster, megabytes: int) -> Iterator[tuple[Database, Path]]:
    """Yield a database whose tables share a small disk, and the folder of that disk.

    WAL stays elsewhere, so that the server survives.
    """
    with small_disk(megabytes) as place:
        name = place.parent.name.replace("-", "_")
        database = create_database_on(cluster, place, name)
        yield database, place
        database.drop()
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            connection.execute(SQL("drop tablespace {}").format(Identifier(name)))


@contextmanager
def filled(place: Path, spare_bytes: int) -> Iterator[None]:
    """Leave so little of the disk, until the block ends."""
    ballast = place / "ballast"
    with ballast.open("wb") as file:
        while not _take_room(file.fileno(), place, spare_bytes):
            pass
    try:
        yield
    finally:
        # The disk itself may have gone meanwhile.
        ballast.unlink(missing_ok=True)


def _take_room(file: int, place: Path, spare_bytes: int) -> bool:
    """Let a file take all room but this; False: another one took some of it meanwhile."""
    stat = os.statvfs(place)
    try:
        os.posix_fallocate(file, 0, max(1, stat.f_bavail * stat.f_frsize - spare_bytes))
    except OSError as exc:
        # One that is full without us is as full.
        return exc.errno != errno.ENOSPC or stat.f_bavail == 0
    return True
