"""A TCP proxy before a server that cuts, resets or silences its connections.

It leads to the server's Unix socket, where nobody is asked for a password.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

import psycopg
from psycopg.conninfo import make_conninfo

from pgrepl.throwaway.self_closing import SelfClosing
from tests.support.database import Database

_HOST = "127.0.0.1"
#: How a server says its process, and a key to cancel what it does.
_BACKEND_KEY = b"K\0\0\0\x0c"


class Proxy(SelfClosing):
    """A context manager; ``dsn`` leads through it."""

    def __init__(self, database: Database, listener: socket.socket | None = None) -> None:
        """Take connections on a free port of this machine, unless a listener is given."""
        self.lead_to(database)
        self._listener = listener or socket.create_server((_HOST, 0))
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._cut_after: int | None = None
        self._swallowed = b""
        #: Whether connections to come carry nothing either.
        self._is_dark = False
        #: For how long each piece of data is held back.
        self.delay_s = 0.0
        self.has_swallowed = threading.Event()
        #: The pieces of data until the session is ended that the last one is of.
        self._pieces_left = 0
        self._is_terminated = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no connections any more, and cut those that are there."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut()

    @property
    def dsn(self) -> str:
        """The conninfo of the database through the proxy."""
        host, port = self._listener.getsockname()
        return make_conninfo(self._database.dsn(host=host), port=port)

    def lead_to(self, database: Database) -> None:
        """Let the connections to come lead to this database's server."""
        self._database = database
        cluster = database.cluster
        self._upstream = str(cluster.socket_dir / f".s.PGSQL.{cluster.port}")

    def cut(self) -> None:
        """Close every connection in good order, as a server that goes away does."""
        for pair in self._take_pairs():
            pair.close()

    def reset(self) -> None:
        """Reset every connection, as a firewall does."""
        for pair in self._take_pairs():
            pair.close(is_reset=True)

    def freeze(self, *, is_dark: bool = False) -> None:
        """Let nothing through on the connections there are; neither side hears of it.

        ``is_dark``: nor on those to come, until it thaws.
        """
        with self._lock:
            self._is_dark = is_dark
            for pair in self._pairs:
                pair.gate.clear()

    def thaw(self) -> None:
        """Let everything through again."""
        with self._lock:
            self._is_dark = False
            for pair in self._pairs:
                pair.gate.set()

    def cut_after(self, byte_count: int) -> None:
        """Reset the first connection through which the server sends, or gets, ``byte_count``."""
        self._cut_after = byte_count

    def swallow(self, command: bytes) -> None:
        """Let nothing more through on connections whose client sends this."""
        self._swallowed = command

    def end_session_at(self, piece: int, *, is_terminated: bool) -> None:
        """End a session before that piece of data passes, whoever sends it.

        ``is_terminated``: by the server, as pg_terminate_backend does; else the connection is cut.
        """
        with self._lock:
            self._is_terminated = is_terminated
            self._pieces_left = piece

    @property
    def has_ended_session(self) -> bool:
        """Whether that piece came."""
        return self._pieces_left <= 0

    def _take_pairs(self) -> list[_Pair]:
        with self._lock:
            taken, self._pairs = self._pairs, []
        return taken

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self._upstream)
            except OSError:
                client.close()
                server.close()
                continue
            pair = _Pair(self, client, server)
            with self._lock:
                self._pairs.append(pair)
                if self._is_dark:
                    pair.gate.clear()
            pair.start()

    def forget(self, pair: _Pair) -> None:
        """Hear that a pair has carried all that it ever will."""
        with self._lock, suppress(ValueError):
            self._pairs.remove(pair)

    def look(self, pair: _Pair, data: bytes) -> None:
        """Hear what a pair is about to carry."""
        if self._swallowed and self._swallowed in data:
            pair.gate.clear()
            self.has_swallowed.set()
        if self._pieces_left > 0:
            with self._lock:
                self._pieces_left -= 1
                is_last = self._pieces_left == 0
            if is_last:
                self._end(pair)

    def _end(self, pair: _Pair) -> None:
        if not self._is_terminated or pair.pid is None:
            pair.close()
            return
        # The session may have ended by itself, and the test with it.
        with suppress(psycopg.Error), self._database.connect() as session:
            session.execute("select pg_terminate_backend(%s, 5000)", (pair.pid,))

    def count(self, pair: _Pair, byte_count: int) -> None:
        """Hear that a pair has carried this number of bytes one way."""
        if self._cut_after is not None and byte_count > self._cut_after:
            self._cut_after = None
            pair.close(is_reset=True)


class _Pair:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self.gate = threading.Event()
        self.gate.set()
        #: The process of the server, once it has said so.
        self.pid: int | None = None
        #: How many directions still carry something.
        self._open = 2
        self._lock = threading.Lock()

    def start(self) -> None:
        for source, sink in ((self._client, self._server), (self._server, self._client)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def close(self, *, is_reset: bool = False) -> None:
        if is_reset:
            with suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.gate.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            # A socket that a thread still reads from is not closed; this ends the reading, and the
            # client hears nothing of it before the reset.
            self._client.shutdown(socket.SHUT_RD if is_reset else socket.SHUT_RDWR)
        self._server.close()
        self._client.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        carried = 0
        with suppress(OSError):
            while data := source.recv(65536):
                if self.pid is None and (at := data.find(_BACKEND_KEY)) >= 0:
                    self.pid = int.from_bytes(data[at + 5 : at + 9])
                self._proxy.look(self, data)
                self.gate.wait()
                if self._proxy.delay_s:
                    time.sleep(self._proxy.delay_s)
                sink.sendall(data)
                carried += len(data)
                self._proxy.count(self, carried)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            self._open -= 1
            is_over = not self._open
        if is_over:
            self._proxy.forget(self)
            self._server.close()
            self._client.close()
