"""The HTTP server, in a thread beside whatever the program does."""

from __future__ import annotations

import logging
import socket
import threading

import uvicorn

from pgrepl.errors import UsageError
from pgrepl.monitor.address import Address
from pgrepl.monitor.watcher import Watcher
from pgrepl.monitor.web.app import make_app

__all__ = ["Server"]

logger = logging.getLogger(__name__)

#: Connections at once; more are turned away.
_CONNECTIONS = 64

#: The time that requests under way get when the program ends.
_PATIENCE_S = 1


class Server:
    """Serves what a watcher knows."""

    def __init__(self, watcher: Watcher, address: Address) -> None:
        """Open the port.

        Raises
        ------
        UsageError
            when it cannot be had.

        """
        self._socket = _listen(address)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{address.shown_host}:{self.port}/"
        config = uvicorn.Config(
            make_app(watcher, address),
            access_log=False,
            # Its lines would not be ours; what goes wrong raises.
            log_config=None,
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE_S,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="pgrepl-monitor", daemon=True)

    def start(self) -> None:
        """Serve, in a thread that does not keep the program from ending."""
        self._thread.start()
        logger.info("monitor: listening", extra={"url": self.url})

    def stop(self) -> None:
        """End within a moment."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(2 * _PATIENCE_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except Exception as exc:  # noqa: BLE001  what the program is for goes on without it
            logger.error("monitor: %s", type(exc).__name__)  # noqa: TRY400


def _listen(address: Address) -> socket.socket:
    try:
        family, kind, _, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind)
    except OSError as exc:
        raise _refused(address, exc) from exc
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(name)
        found.listen(_CONNECTIONS)
    except OSError as exc:
        found.close()
        raise _refused(address, exc) from exc
    return found


def _refused(address: Address, exc: OSError) -> UsageError:
    reason = (exc.strerror or "").lower()
    return UsageError(
        f"cannot listen on {address.shown_host}:{address.port}: {reason}",
        hint="Choose another address; 0 as the port takes a free one.",
    )
