"""Programs that run as another user of this machine, one that owns nothing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

_NAME = "nobody"


def run_as_stranger(program: Path, *arguments: str) -> str:
    """Run a Python program that needs nothing but Python, and return what it prints.

    Skips the test where this user can become no other one.
    """
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no Python that all users may run")
    # By its text: the stranger may not read where it lies.
    command = [python, "-I", "-c", program.read_text(), *arguments]
    if os.getuid() == 0:
        stranger = pwd.getpwnam(_NAME)
        ids = {"user": stranger.pw_uid, "group": stranger.pw_gid, "extra_groups": []}
        return _run(command, **ids)
    sudo = ["sudo", "-n", "-u", _NAME]
    if not shutil.which("sudo") or subprocess.run([*sudo, "true"], check=False).returncode:
        pytest.skip("only root, or a user with sudo, can become another user")
    return _run([*sudo, *command])


def _run(command: list[str], **options: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, cwd="/", env={}, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)
