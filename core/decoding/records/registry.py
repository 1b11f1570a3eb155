"""A schema registry, asked for schemas by their numbers."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from pgrepl.config.dsn import mask_uris
from pgrepl.decoding.records.values import BadValue
from pgrepl.errors import SourceError, SourceUnavailable

__all__ = ["Registry"]

_TIMEOUT_S = 20.0
#: No answer is longer: of what is, the end is missing.
_MOST_BYTES = 64 << 20
_ACCEPT = "application/vnd.schemaregistry.v1+json"


class Registry:
    """Confluent's interface: ``GET /schemas/ids/N``; name and password stand in the address."""

    def __init__(self, address: str, source: str) -> None:
        """Take its address; nothing is asked yet."""
        parts = urlsplit(address)
        self.shown = mask_uris(address)
        self._source = source
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": _ACCEPT}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()

    def find_schema(self, number: int) -> object:
        """Return a schema.

        Raises
        ------
        BadValue
            when the registry does not have it.
        SourceUnavailable
            when it does not answer.

        """
        answer = self._get(f"/schemas/ids/{number}")
        if answer is None:
            raise BadValue(f"the registry has no schema {number}")
        if answer.get("schemaType", "AVRO") != "AVRO":
            raise BadValue(f"schema {number} is not one of Avro's")
        schema = answer.get("schema")
        if not isinstance(schema, str):
            raise self._unavailable("it gives no schema")
        try:
            return json.loads(schema)
        except (ValueError, RecursionError) as exc:
            raise BadValue(f"schema {number} of the registry is not JSON") from exc

    def register(self, subject: str, schema: str) -> int:
        """Return the number of an Avro schema, which the subject has from then on.

        Raises
        ------
        SourceError
            when the registry refuses it, as it does with one that does not fit the ones before.

        """
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
        number = None if answer is None else answer.get("id")
        if not isinstance(number, int):
            raise self._unavailable("it gives no number to a schema")
        return number

    def check(self) -> None:
        """Ask for anything at all: whether it answers."""
        self._get("/subjects")

    def _get(self, path: str) -> dict[str, object] | None:
        return self._ask(path, None)

    def _ask(self, path: str, body: dict[str, str] | None) -> dict[str, object] | None:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._base + path, data, self._headers)  # noqa: S310  checked in the file
        if data is not None:
            request.add_header("Content-Type", _ACCEPT)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310  as above
                found = json.loads(response.read(_MOST_BYTES))
        except HTTPError as exc:
            exc.close()
            if exc.code == HTTPStatus.NOT_FOUND:
                return None
            if exc.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise SourceError(
                    f'source "{self._source}": the registry at {self.shown} refuses: {exc.code}',
                    hint="Check registry in pgrepl.toml: its address may hold name and password.",
                ) from exc
            raise self._unavailable(str(exc.code)) from exc
        except (URLError, OSError, ValueError, HTTPException, RecursionError) as exc:
            raise self._unavailable(type(exc).__name__) from exc
        return found if isinstance(found, dict) else {}

    def _unavailable(self, why: str) -> SourceUnavailable:
        return SourceUnavailable(
            f'source "{self._source}": the registry at {self.shown} does not answer: {why}',
            hint="Is it running, and is registry in pgrepl.toml its address?",
        )
