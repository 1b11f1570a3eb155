"""Throwaway clusters leave nothing behind, whenever their owner dies."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ROUNDS = 40
OWNER = """
from pgrepl.throwaway import Cluster
while True:
    with Cluster() as cluster:
        cluster.create_database("some")
        cluster.restart("immediate")
"""


def traces(owner: int) -> list[str]:
    """Return what is left of an owner's clusters: folders, and programs that run in one."""
    mark = f"/pgrepl-{owner}-"
    folders = Path(tempfile.gettempdir()).glob(f"pgrepl-{owner}-*")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [*map(str, folders), *(line for line in listed.stdout.splitlines() if mark in line)]


def is_gone(owner: int) -> bool:
    return not traces(owner)


@pytest.mark.timeout(1800)
def test_nothing_is_left_when_the_owner_is_killed_at_any_moment():
    dice = random.Random(1)
    for _ in range(ROUNDS):
        owner = subprocess.Popen([sys.executable, "-c", OWNER], stderr=subprocess.DEVNULL)
        try:
            owner.wait(timeout=dice.uniform(0.2, 4))
        except subprocess.TimeoutExpired:
            owner.kill()
            owner.wait()
        wait_until(partial(is_gone, owner.pid), timeout_s=90)
