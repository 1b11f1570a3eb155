"""The routes: metrics, probes, what the page asks, and the page itself. All of them only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pgrepl.errors import PgreplError, UsageError
from pgrepl.monitor.address import Address
from pgrepl.monitor.past import Past
from pgrepl.monitor.snapshot import Snapshot
from pgrepl.monitor.watcher import Watcher
from pgrepl.monitor.web.document import snapshot_document
from pgrepl.monitor.web.guard import Guard
from pgrepl.monitor.web.metrics import Metrics
from pgrepl.terminal import json_text

__all__ = ["make_app"]

#: Path to file and type. They hold no facts: whoever has no token may have them.
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_PROBES = ("/healthz", "/readyz")


def make_app(watcher: Watcher, address: Address) -> Starlette:
    """Return the application that serves what a watcher knows."""
    views = _Views(watcher)
    routes = [Route(path, _static(*file)) for path, file in _PAGE.items()]
    routes += [
        Route("/healthz", views.health),
        Route("/readyz", views.readiness),
        Route("/metrics", views.metrics),
        Route("/api/status", views.status),
        Route("/api/history", views.history),
    ]
    guard = Middleware(Guard, address=address, public=(*_PAGE, *_PROBES))
    app = Starlette(routes=routes, middleware=[guard])
    # A redirect would lead to whatever host the request names.
    app.router.redirect_slashes = False
    return app


def _static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("pgrepl.monitor.web").joinpath("page", name).read_bytes()

    async def respond(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return respond


class _Views:
    """Answers out of what is known; no request waits for a server."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._past = Past()
        #: What was made of the newest snapshot: its number, and answers by what they are.
        self._made: tuple[int, dict[str, Any]] = (-1, {})

    async def health(self, _: Request) -> Response:
        is_well = self._watcher.is_well
        return PlainTextResponse("ok\n" if is_well else "stuck\n", 200 if is_well else 503)

    async def readiness(self, _: Request) -> Response:
        is_up = self._watcher.snapshot.is_up and self._watcher.is_well
        return PlainTextResponse("ready\n" if is_up else "not ready\n", 200 if is_up else 503)

    async def metrics(self, request: Request) -> Response:
        is_open = "application/openmetrics-text" in request.headers.get("accept", "")
        encode: Callable[[Metrics], bytes] = openmetrics.generate_latest
        media_type = openmetrics.CONTENT_TYPE_LATEST
        if not is_open:
            encode, media_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
        content = await self._once(media_type, lambda snapshot: encode(Metrics(snapshot)))
        return Response(content, headers={"Content-Type": media_type})

    async def status(self, _: Request) -> Response:
        facts = await self._once(
            "status", lambda snapshot: json_text(snapshot_document(snapshot, self._watcher))
        )
        at = self._watcher.snapshot.at
        age_s = None if at is None else round((datetime.now(UTC) - at).total_seconds(), 1)
        content = f'{{"age_seconds": {json_text(age_s)}, "facts": {facts}}}'
        return Response(content, media_type="application/json")

    async def history(self, request: Request) -> Response:
        try:
            content = await run_in_threadpool(
                self._past.as_json, self._watcher.target, request.query_params.get("since", "")
            )
        except UsageError as exc:
            return PlainTextResponse(f"{exc.message}\n", 400)
        except PgreplError as exc:
            return PlainTextResponse(f"{exc.message}\n", 503)
        return Response(content, media_type="application/json")

    async def _once(self, what: str, make: Callable[[Snapshot], Any]) -> Any:  # noqa: ANN401
        """Make an answer of the newest snapshot, once, without holding up other requests."""
        snapshot = self._watcher.snapshot
        if self._made[0] != snapshot.number:
            self._made = (snapshot.number, {})
        made = self._made[1]
        if what not in made:
            made[what] = await run_in_threadpool(make, snapshot)
        return made[what]
