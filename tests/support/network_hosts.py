"""Hosts of our own on this machine: network namespaces, each with an address on one bridge."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.spark_cluster import Host

#: Of the range that is set aside for documentation, so that nobody else has it.
_NETWORK = "192.0.2"


@contextmanager
def network_hosts(count: int) -> Iterator[list[Host]]:
    """Yield this machine, as the others see it, and so many more. Takes root."""
    if os.geteuid() != 0:
        pytest.skip("making network namespaces takes root")
    mark = f"pgr{os.getpid() % 100_000}"
    with ExitStack() as stack:
        _ip("link", "add", mark, "type", "bridge")
        stack.callback(_ip, "link", "del", mark)
        _ip("address", "add", f"{_NETWORK}.1/24", "dev", mark)
        _ip("link", "set", mark, "up")
        hosts = [Host(f"{_NETWORK}.1")]
        for number in range(2, count + 2):
            name, inside = f"{mark}-{number}", f"{mark}v{number}"
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            _ip("link", "add", inside, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", inside, "master", mark, "up")
            for command in (
                ("address", "add", f"{_NETWORK}.{number}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", name, *command)
            hosts.append(Host(f"{_NETWORK}.{number}", ("ip", "netns", "exec", name)))
        yield hosts


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
