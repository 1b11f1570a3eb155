"""The archive of classes is code: it is taken from a folder of this user alone."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from pgrepl.spark.class_archive import ClassArchive, find_archive


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a machine with a Java, a Spark, and a cache that is not there yet."""
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch(mode=0o755)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path


def find(home) -> ClassArchive | None:
    return find_archive(home / "spark")


def made(home) -> ClassArchive:
    """Return the archive as the first JVM leaves it."""
    archive = find(home)
    assert archive is not None
    assert archive.java_options == ""
    record(archive)
    archive.keep()
    return archive


def record(archive: ClassArchive) -> None:
    """Do as a JVM at its end."""
    found = re.search('"-XX:ArchiveClassesAtExit=(.*)"', archive.recording_options)
    assert found is not None
    Path(found[1]).touch(mode=0o400)


def test_what_one_jvm_wrote_the_next_one_uses(home):
    archive = made(home)
    assert (home / "cache" / "pgrepl").stat().st_mode & 0o777 == 0o700
    again = find(home)
    assert again is not None
    assert again.java_options.startswith(f'"-XX:SharedArchiveFile={archive.path}"')


def test_jvm_that_was_broken_off_leaves_none(home):
    archive = find(home)
    assert archive is not None
    record(archive)
    archive.forget()
    archive.keep()
    assert list(archive.path.parent.iterdir()) == []


def test_another_java_or_spark_has_another(home):
    first = made(home).path
    os.utime(home / "java" / "bin" / "java", (0, 0))
    second = made(home).path
    (home / "spark" / "jars" / "more.jar").touch()
    os.utime(home / "spark" / "jars", (0, 0))
    assert len({first, second, made(home).path}) == 3


def test_those_of_versions_no_longer_in_use_are_removed(home):
    old = made(home).path
    long_ago = time.time() - 100 * 86_400
    os.utime(old, (long_ago, long_ago))
    os.utime(home / "java" / "bin" / "java", (0, 0))
    made(home)
    assert not old.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_folder_that_others_can_enter_is_not_used(home, mode):
    made(home).path.parent.chmod(mode)
    assert find(home) is None


def test_file_that_others_can_write_is_not_used(home):
    made(home).path.chmod(0o620)
    assert find(home) is None


def test_link_is_not_followed(home):
    path = made(home).path
    path.rename(home / "elsewhere")
    path.symlink_to(home / "elsewhere")
    assert find(home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_file_of_another_user_is_not_used(home):
    os.chown(made(home).path, 12345, 12345)
    assert find(home) is None


def test_service_uses_the_folder_that_systemd_made_for_it(home, monkeypatch):
    (home / "service").mkdir(mode=0o700)
    monkeypatch.setenv("CACHE_DIRECTORY", str(home / "service"))
    archive = find(home)
    assert archive is not None
    assert archive.path.parent == home / "service"


def test_without_a_home_or_java_there_is_none(home, monkeypatch):
    (home / "java" / "bin" / "java").unlink()
    assert find(home) is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    assert find(home) is None
