"""Hosts of our own on this machine: network namespaces, each with an address on one bridge."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.spark.spark_cluster import Host

#: Of the range that is set aside for documentation, so that nobody else has it.
_NETWORK = "192.0.2"


@contextmanager
def network_hosts(count: int) -> Iterator[list[Host]]:
    """Yield hosts that reach each other and nothing else, this machine included. Takes root."""
    if os.geteuid() != 0:
        pytest.skip("making network namespaces takes root")
    mark = f"pgr{os.getpid()}"
    switch = f"{mark}-switch"
    with ExitStack() as stack:
        # The bridge has a namespace of its own too: rules of this machine do not apply there.
        _make_namespace(stack, switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        hosts = []
        for number in range(1, count + 1):
            name, address, port = f"{mark}-{number}", f"{_NETWORK}.{number}", f"port{number}"
            _make_namespace(stack, name)
            ends = (*("name", "eth0", "netns", name), *("type", "veth", "peer"))
            _ip("link", "add", *ends, *("name", port, "netns", switch))
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            hosts.append(Host(address, ("ip", "netns", "exec", name)))
        yield hosts


def _make_namespace(stack: ExitStack, name: str) -> None:
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)
    _ip("-n", name, "link", "set", "lo", "up")


def listen_on(host: Host) -> socket.socket:
    """Take connections on a free port of a host; a socket stays where it was made."""
    made: list[socket.socket] = []

    def listen() -> None:
        with Path("/var/run/netns", host.command[-1]).open("rb") as namespace:
            # Of the thread alone, which ends here.
            assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
        made.append(socket.create_server((host.address, 0)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return made[0]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
