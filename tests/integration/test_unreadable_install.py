"""A copy of pgrepl that its user cannot read whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pgrepl

# Root reads everything; without these it is held to the files' modes as all other users are.
_WITHOUT_OVERRIDE = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)


@pytest.fixture
def copy(tmp_path):
    """Return the folder of a package that was installed by copying."""
    folder = tmp_path / "site"
    for place in pgrepl.__path__:
        # A compiled file would stand in for one that cannot be read.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(place, folder / "pgrepl", dirs_exist_ok=True, ignore=ignored)
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o755)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_WITHOUT_OVERRIDE, sys.executable, "-m", "pgrepl.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("cli/setup/config.py", id="a command that is imported at the start"),
        pytest.param("config/file.py", id="a module that is imported when it is needed"),
        pytest.param("doctor", id="a folder"),
    ],
)
def test_file_that_cannot_be_read_is_named(copy, name):
    assert run(copy, "--version").returncode == 0
    (copy / "pgrepl" / name).chmod(0)
    done = run(copy, "doctor", "--config", "/nonexistent/pgrepl.toml")
    assert done.returncode == 10
    assert done.stderr.startswith(f"error: {copy}/pgrepl/{name}: permission denied")
    assert f"chmod -R a+rX {copy}/pgrepl" in done.stderr


def test_other_file_that_is_refused_is_named(copy, tmp_path):
    output = tmp_path / "units"
    output.mkdir()
    output.chmod(0o500)
    config = tmp_path / "pgrepl.toml"
    config.write_text('[target]\ndsn = "host=x"\n[sources.a]\ndsn = "host=y"\n', encoding="utf-8")
    done = run(copy, "systemd", "--config", str(config), "--output", str(output))
    assert done.returncode != 0
    assert str(output) in done.stderr
    assert "permission denied" in done.stderr.lower()
