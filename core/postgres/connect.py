"""The only place that opens connections.

Every session prints and reads values the same way whatever ``ALTER ROLE`` or ``ALTER DATABASE``
set: the settings below are what "as PostgreSQL printed it" means in pgrepl. TLS, passwords and
service files are libpq's business.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import make_conninfo
from psycopg.pq import Format

from pgrepl.config.dsn import Endpoint
from pgrepl.lsn import Lsn
from pgrepl.postgres.sqlstate import tell_endpoint, translated

__all__ = ["CONNECT_TIMEOUT_S", "Connection", "connect", "conninfo"]

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")

#: A server that does not answer within this time counts as dead, unless the DSN says otherwise.
CONNECT_TIMEOUT_S = 10

_PINNED = {
    "datestyle": "ISO,YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
    "lc_monetary": "C",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "xmloption": "content",
    "search_path": "pg_catalog",
    "client_min_messages": "warning",
    # Reading under another default could have the transaction of another session cancelled.
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    # Whoever must not wait for long says so. To make a slot is to wait for open transactions.
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # The planner takes our queries of the catalogue for expensive: compiling one took a second.
    "jit": "off",
}

_TRANSACTION_TIMEOUT_VERSION = 170_000

# A peer that vanished without a word is noticed after about a minute.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}

_PG_LSN_OID = 3220


class _Session(psycopg.Connection[tuple[Any, ...]]):
    """Has errors know whose they are, should nothing translate them on their way."""

    endpoint: Endpoint | None = None

    def wait(self, gen: Generator[Any, Any, T], *times: Any, **more: Any) -> T:  # noqa: ANN401  as psycopg's
        try:
            return super().wait(gen, *times, **more)
        except psycopg.Error as exc:
            if self.endpoint is not None:
                tell_endpoint(exc, self.endpoint)
            raise


class _LsnLoader(Loader):
    def load(self, data: Any) -> Lsn:  # noqa: ANN401  psycopg hands over any kind of buffer
        return Lsn.parse(bytes(data).decode())


class _LsnBinaryLoader(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> Lsn:  # noqa: ANN401  as above
        return Lsn(int.from_bytes(data))


class _LsnDumper(Dumper):
    oid = _PG_LSN_OID

    def dump(self, obj: Lsn) -> bytes:
        return str(obj).encode()


def conninfo(
    endpoint: Endpoint, stage: str, *, is_replication: bool = False, patience_s: int | None = None
) -> str:
    """Return the endpoint's conninfo with pgrepl's settings in it. It may hold a password.

    ``patience_s`` is for those who rather go without an answer than wait: it goes before the DSN's
    own ``connect_timeout``, and limits each statement too.
    """
    dsn = endpoint.dsn
    pinned = " ".join(f"-c {name}={value}" for name, value in _PINNED.items())
    given = dsn.lookup("options", "connect_timeout", *_KEEPALIVES)
    defaults: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, **_KEEPALIVES}
    settings = {key: value for key, value in defaults.items() if given[key] is None}
    if is_replication:
        settings["replication"] = "database"
    if patience_s is not None:
        settings |= {"connect_timeout": patience_s, "tcp_user_timeout": patience_s * 1000}
        pinned += f" -c statement_timeout={patience_s}s"
    return make_conninfo(
        dsn.text,
        application_name=f"pgrepl-{stage}",
        client_encoding="UTF8",
        # The last setting of a name wins: ours.
        options=" ".join(filter(None, (given["options"], pinned))),
        **settings,
    )


def connect(
    endpoint: Endpoint,
    stage: str,
    *,
    autocommit: bool = True,
    is_replication: bool = False,
    patience_s: int | None = None,
) -> Connection:
    """Open a session whose ``application_name`` is ``pgrepl-STAGE``.

    Raises
    ------
    SourceError, TargetError
        by which side the endpoint is, naming what is wrong.

    """
    with translated(endpoint, "cannot connect"):
        text = conninfo(endpoint, stage, is_replication=is_replication, patience_s=patience_s)
        connection = _Session.connect(text, autocommit=True)
        if connection.info.server_version >= _TRANSACTION_TIMEOUT_VERSION:
            # Older servers end a session that sets it when it begins.
            connection.execute("set transaction_timeout = 0")
        connection.autocommit = autocommit
    connection.endpoint = endpoint
    if logger.isEnabledFor(logging.DEBUG):
        shown = {"to": str(endpoint), "dsn": str(endpoint.dsn), "stage": stage}
        logger.debug("connected", extra=shown)
    connection.adapters.register_loader(_PG_LSN_OID, _LsnLoader)
    connection.adapters.register_loader(_PG_LSN_OID, _LsnBinaryLoader)
    connection.adapters.register_dumper(Lsn, _LsnDumper)
    return connection
