"""``pgrepl monitor``, and the same inside ``receive`` and ``replay``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.reload import watch_config
from pgrepl.errors import ConfigError

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.monitor import Watcher
    from pgrepl.monitor.address import Address
    from pgrepl.monitor.web import Server

__all__ = ["MonitorOption", "TokenFileOption", "monitor", "serving"]

_LISTEN = "127.0.0.1:9815"

MonitorOption = Annotated[
    str | None,
    typer.Option(
        "--monitor",
        metavar="[HOST:]PORT",
        help="Serve what pgrepl monitor does, from here; without a host on 127.0.0.1.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="PGREPL_MONITOR_TOKEN_FILE",
        metavar="FILE",
        help="File with the token that requests to the monitor must have;"
        " or set PGREPL_MONITOR_TOKEN.",
    ),
]


def monitor(
    invocation: Invocation,
    *,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="[HOST:]PORT", help="Where to listen."),
    ] = _LISTEN,
    token_file: TokenFileOption = None,
    is_open: Annotated[
        bool,
        typer.Option("--without-token", help="Answer any client that reaches it, on any address."),
    ] = False,
) -> None:
    """Serve metrics for Prometheus, probes, and a page that shows how every source fares.

    Reads only, with the rights that pgrepl status needs, and answers at once, also while a server
    is down: it looks in the background. /metrics, /healthz, /readyz, and the page at /. An address
    that other machines reach needs a token. Needs the packages of pgrepl[monitor].
    """
    config = invocation.load_config()
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    with serving(
        config, listen, token_file, is_recording=True, option="--listen", is_open=is_open
    ) as watcher:

        def follow(found: Config) -> None:
            if watcher is not None:
                watcher.reload(found)

        with watch_config(invocation, config, follow):
            is_over.wait()


@contextmanager
def serving(
    config: Config,
    listen: str | None,
    token_file: Path | None,
    *,
    sources: Sequence[str] | None = None,
    is_recording: bool = False,
    option: str = "--monitor",
    is_open: bool = False,
) -> Iterator[Watcher | None]:
    """Watch meanwhile; serve, where there is an address to listen on, and write the history."""
    if listen is None and not is_recording:
        yield None
        return
    from pgrepl.monitor import INTERVAL_S, LOOK_S, Recorder, Watcher
    from pgrepl.monitor.address import Address, read_token

    with ExitStack() as stack:
        watcher = Watcher(config, sources, interval_s=LOOK_S if listen is None else INTERVAL_S)
        if is_recording:
            watcher.recorder = Recorder()
        if listen is not None:
            token = read_token(os.environ, token_file)
            address = Address.parse(listen, token=token, is_open=is_open, option=option)
            server = _open_server(watcher, address)
            server.start()
            stack.callback(server.stop)
        watcher.start()
        stack.callback(watcher.stop)
        yield watcher


def _open_server(watcher: Watcher, address: Address) -> Server:
    try:
        from pgrepl.monitor.web import Server
    except ModuleNotFoundError as exc:
        name = (exc.name or "").partition(".")[0]
        if name == "pgrepl":
            raise
        raise ConfigError(
            f"the monitor needs the Python package {name}, which is not installed",
            hint="Install it: pip install 'pgrepl[monitor]'",
        ) from exc
    return Server(watcher, address)
