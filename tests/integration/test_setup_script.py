"""The set-up script, where it can be tried without changing the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def setup(folder: Path, path: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "scripts/setup.sh"],
        env={"PATH": path, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_second_run_does_nothing_and_says_nothing():
    assert setup(ROOT, os.environ["PATH"], Path.home()).returncode == 0
    done = setup(ROOT, os.environ["PATH"], Path.home())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def other_system(tmp_path):
    """Return a PATH with the ordinary tools but neither apt-get nor Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "sed", "cat", "find", "sort", "cksum", "cut", "dirname", "basename", "grep",
                 "head", "rm", "printf", "id", "env"):  # fmt: skip
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return str(tools)


def test_other_system_is_told_exactly_what_to_install(tmp_path, other_system):
    project = tmp_path / "project"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    done = setup(project, other_system, project)
    assert done.returncode == 1
    assert "neither Debian nor Ubuntu" in done.stderr
    assert "Java 17 or newer: missing" in done.stderr
    assert "dnf install" in done.stderr
    assert not (project / ".venv").exists()
