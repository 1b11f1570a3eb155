"""Names whose bytes are no text, or none in the target's encoding.

A database in SQL_ASCII takes any. No table of the target has such a name. They get one that tells
them apart, so that whoever meets them can go on: a table of that name was never copied, a column of
it is missing.
"""

from __future__ import annotations

import zlib
from typing import Any

import psycopg
from psycopg.adapt import Loader

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.encodings import server_codec

__all__ = ["decode_name", "fit_name", "is_name", "load_any_name"]

#: So much is shown of it; with the checksum it is no longer than a name may be.
_SHOWN = 32


def decode_name(raw: bytes, codec: str) -> str:
    r"""Return a name, or what stands for one that is not valid in the encoding.

    >>> decode_name(b"t\xe9", "utf-8")
    't? (not text: d22f9ff3)'

    """
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return _placeholder(raw)


def is_name(connection: Connection, name: str) -> bool:
    """Whether a server can have such a name."""
    try:
        name.encode(server_codec(connection))
    except UnicodeEncodeError:
        # Python's tables are not the server's.
        return _is_convertible(connection, name.encode())
    return True


def _is_convertible(connection: Connection, raw: bytes) -> bool:
    try:
        with connection.transaction():
            connection.execute(
                "select pg_catalog.convert(%b::bytea, 'UTF8', pg_catalog.getdatabaseencoding())",
                (raw,),
            )
    except psycopg.DataError:
        return False
    return True


def fit_name(connection: Connection, name: str) -> str:
    """Return a name, or what stands for one that a server's encoding does not have."""
    return name if is_name(connection, name) else _placeholder(name.encode())


def _placeholder(raw: bytes) -> str:
    shown = "".join(chr(byte) if byte < 0x80 else "?" for byte in raw[:_SHOWN])  # noqa: PLR2004
    return f"{shown} (not text: {zlib.crc32(raw):08x})"


class _NameLoader(Loader):
    def load(self, data: Any) -> str:  # noqa: ANN401  psycopg hands over any kind of buffer
        return decode_name(bytes(data), "utf-8")


def load_any_name(connection: Connection) -> None:
    """Let a session on a source read names of any bytes, where it can have such."""
    if connection.info.parameter_status("server_encoding") != "SQL_ASCII":
        return
    # In any other encoding the server itself refuses to send them.
    connection.execute("set client_encoding = 'SQL_ASCII'")
    for kind in ("name", "text"):
        connection.adapters.register_loader(kind, _NameLoader)
