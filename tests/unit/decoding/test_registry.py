"""A registry that answers with something else than a schema is waited for, and not a bug."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgrepl.decoding.records.registry import Registry
from pgrepl.errors import SourceUnavailable


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Yield the address of what answers each request so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\1\2 is no answer\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 503 Busy\r\n\r\n",
    ],
)
def test_registry_that_answers_with_something_else_is_waited_for(answer):
    with (
        answering(answer) as address,
        pytest.raises(SourceUnavailable, match="does not answer"),
    ):
        Registry(address, "feed").find_schema(1)
