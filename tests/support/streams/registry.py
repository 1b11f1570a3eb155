"""A schema registry as small as can be: schemas by number, and new ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Registry:
    """Serves on a port of its own until it is closed."""

    def __init__(self, schemas: Mapping[int, str] | None = None) -> None:
        self.schemas = dict(schemas or {})
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/subjects":
                    self._answer(200, [])
                    return
                number = self.path.rpartition("/")[2]
                schema = registry.schemas.get(int(number)) if number.isdigit() else None
                if schema is None:
                    self._answer(404, {"error_code": 40403, "message": "Schema not found"})
                else:
                    self._answer(200, {"schema": schema})

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                schema = json.loads(self.rfile.read(size))["schema"]
                self._answer(200, {"id": registry.add(schema)})

            def _answer(self, code: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def add(self, schema: str) -> int:
        """Return the number of a schema."""
        for number, known in self.schemas.items():
            if known == schema:
                return number
        self.schemas[len(self.schemas) + 1] = schema
        return len(self.schemas)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
