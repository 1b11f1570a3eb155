"""What systemd hears."""

from __future__ import annotations

import socket

import pytest

from pgrepl.receiver import Notifier


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def test_says_nothing_without_a_socket():
    notifier = Notifier({"WATCHDOG_USEC": "1"})
    notifier.ready()
    notifier.alive()
    notifier.stopping()


def test_says_that_it_is_ready_once(manager, tmp_path):
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    notifier.ready()
    notifier.ready()
    notifier.alive()
    assert manager.recv(100) == b"READY=1"
    with pytest.raises(BlockingIOError):
        manager.recv(100)


def test_feeds_the_watchdog_not_more_often_than_needed(manager, tmp_path):
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
    notifier = Notifier(env)
    notifier.alive()
    notifier.alive()
    assert manager.recv(100) == b"WATCHDOG=1"
    with pytest.raises(BlockingIOError):
        manager.recv(100)


def test_manager_that_is_gone_does_no_harm(tmp_path):
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
