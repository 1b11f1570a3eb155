"""Places where a test can make the program die."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = "from pgrepl.failpoint import reach\nfor _ in range(3):\n reach('a.b'); print('alive')"


def run(value: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PGREPL_FAILPOINT": value}
    return subprocess.run(
        [sys.executable, "-u", "-c", PROGRAM], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("value", "alive"), [("a.b:kill", 0), ("a.b:kill:3", 2)])
def test_process_dies_where_it_is_told(value, alive):
    done = run(value)
    assert done.returncode == -9
    assert done.stdout.count("alive") == alive


@pytest.mark.parametrize("value", ["", "other:kill"])
def test_process_lives_otherwise(value):
    assert run(value).stdout.count("alive") == 3


@pytest.mark.parametrize("value", ["a.b", "a.b:sleep", ":kill", "a.b:kill:x"])
def test_mistake_is_noticed(value):
    assert "PGREPL_FAILPOINT must be" in run(value).stderr
