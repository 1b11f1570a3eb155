"""Ask a monitor by HTTP, as Prometheus and browsers do."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.error import HTTPError

from prometheus_client.parser import text_string_to_metric_families

from pgrepl.config.model import Config
from pgrepl.monitor import Watcher
from pgrepl.monitor.address import Address
from pgrepl.monitor.web import Server

#: Nothing between us and the monitor.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Answer:
    status: int
    headers: Message
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return what the metrics say, as Prometheus's parser reads them."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> Any:
        """Return what one sample says; None when it is missing."""
        return self.samples().get((name, frozenset(labels.items())))


def ask(
    url: str,
    path: str = "",
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10,
) -> Answer:
    request = urllib.request.Request(
        url.rstrip("/") + "/" + path.lstrip("/"), method=method, headers=dict(headers or {})
    )
    try:
        with _DIRECT.open(request, timeout=timeout_s) as response:
            return Answer(response.status, response.headers, response.read().decode())
    except HTTPError as exc:
        with exc:
            return Answer(exc.code, exc.headers, exc.read().decode())


@contextmanager
def served(
    config: Config,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    interval_s: float = 0.2,
    is_watching: bool = True,
) -> Iterator[tuple[str, Watcher]]:
    """Serve a configuration from this process, and return where; it has looked once."""
    watcher = Watcher(config, interval_s=interval_s)
    server = Server(watcher, Address(host=host, port=0, token=token))
    if is_watching:
        watcher.look()
        watcher.start()
    server.start()
    try:
        yield server.url, watcher
    finally:
        watcher.stop()
        server.stop()
