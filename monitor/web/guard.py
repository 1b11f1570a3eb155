"""Stands before every request: who may ask, what may be asked, and what browsers are told."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgrepl.monitor.address import Address

__all__ = ["Guard"]

#: Nothing but files of ours runs, is shown or is asked; no other page may show ours.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_METHODS = ("GET", "HEAD")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Guard:
    """Answers itself what must not reach the application, and gives each answer its headers."""

    def __init__(self, app: ASGIApp, *, address: Address, public: Iterable[str]) -> None:
        """Guard an application; the paths in ``public`` say nothing that needs the token."""
        self._app = app
        self._token = None if address.token is None else address.token.encode()
        self._public = frozenset(public)
        # A page of another site could have its own name lead here, and then read everything.
        is_guarded = address.is_loopback and address.token is None
        self._names = _LOCAL_NAMES | {address.shown_host.lower()} if is_guarded else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in _METHODS:
            allowed = {"Allow": ", ".join(_METHODS)}
            return PlainTextResponse("nothing can be changed here\n", 405, allowed)
        if self._names is not None and _name_of(headers.get("host", "")) not in self._names:
            return PlainTextResponse("this is another host\n", 421)
        if scope["path"] not in self._public and not self._is_known(headers):
            asked = {"WWW-Authenticate": 'Bearer realm="pgrepl"'}
            return PlainTextResponse("a token is needed\n", 401, asked)
        return None

    def _is_known(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        is_same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token)
        return is_same and kind.lower() == "bearer"


def _name_of(host: str) -> str:
    """Return the name in a header ``Host``, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
