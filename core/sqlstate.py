"""Driver errors become pgrepl's, by SQLSTATE, here and nowhere else.

PostgreSQL's primary message is kept, because it names the object. Where it may quote a row's value
(class 22, data exceptions) the name of the condition stands instead, and DETAIL, which quotes whole
keys, is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from pgrepl.dsn import Endpoint, Side
from pgrepl.errors import (
    PgreplError,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetUnavailable,
)

__all__ = ["translate", "translated"]

#: Classes and codes that pass by themselves. Keep the list narrow: whatever is not in it waits
#: for a person.
_TRANSIENT = (
    "08",  # connection exception
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "53",  # insufficient resources: disk full, out of memory, too many connections
    "55006",  # object_in_use: a slot or origin whose last user is still going away
    "55P03",  # lock_not_available
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now: starting up or shutting down
)

_DATA_EXCEPTION = "22"

_HINTS = {
    "28000": "Check the user and pg_hba.conf of the server.",
    "28P01": "Check the password: libpq takes it from ~/.pgpass, a service file or PGPASSWORD.",
    "3D000": "Check dbname in the DSN.",
    "42501": "Run pgrepl doctor: it prints the GRANT that is missing.",
    "53100": "Free disk space on the server; what is stored stays whole.",
    "53300": "Raise max_connections on the server, or lower replay.shards.",
    "57014": "The statement ran into a timeout or was cancelled.",
}

# libpq's own messages are never translated in a Python process, which leaves LC_MESSAGES alone;
# the server's may be, and are told apart by other means.
_CONNECT_HINTS = (
    ("Connection refused", "Is the server running there, and is the port right?"),
    ("failed to resolve host", "Check the host name in the DSN."),
    ("No such file or directory", "Is the server running, and is this its socket directory?"),
    ("received invalid response to SSL", "What listens there is not PostgreSQL; check the port."),
    (
        "expected authentication request",
        "What listens there is not PostgreSQL; check host and port.",
    ),
    ("does not support SSL", "Set sslmode in the DSN, or turn on ssl on the server."),
    ("certificate", "Check sslmode, sslrootcert and the server's certificate."),
    ("server closed the connection", "Is this PostgreSQL? Its log says why it closed."),
)


def translate(exc: psycopg.Error, endpoint: Endpoint, action: str) -> PgreplError:
    """Return the pgrepl error for a driver error met while doing ``action``."""
    is_transient = _is_transient(exc)
    if endpoint.side is Side.SOURCE:
        kind: type[PgreplError] = SourceUnavailable if is_transient else SourceError
    else:
        kind = TargetUnavailable if is_transient else TargetError
    return kind(f"{endpoint}: {action}: {_reason(exc, endpoint)}", hint=_hint(exc))


@contextmanager
def translated(endpoint: Endpoint, action: str) -> Iterator[None]:
    """Raise what psycopg raises inside as an error of this endpoint."""
    try:
        yield
    except psycopg.Error as exc:
        raise translate(exc, endpoint, action) from exc


def _is_transient(exc: psycopg.Error) -> bool:
    if exc.sqlstate is not None:
        return exc.sqlstate.startswith(_TRANSIENT)
    # Without a SQLSTATE it is libpq that speaks: the connection was not made, or broke.
    return isinstance(exc, psycopg.OperationalError) and not _asks_for_password(exc)


def _reason(exc: psycopg.Error, endpoint: Endpoint) -> str:
    if exc.sqlstate is not None and exc.sqlstate.startswith(_DATA_EXCEPTION):
        condition = re.sub(r"(?<!^)(?=[A-Z])", " ", type(exc).__name__).lower()
        return f"{condition} (SQLSTATE {exc.sqlstate})"
    if exc.diag.message_primary:
        return exc.diag.message_primary
    if isinstance(exc, errors.ConnectionTimeout):
        return f"no answer in time from {endpoint.dsn}"
    text = str(exc).removeprefix("connection failed: ").strip().splitlines()
    return text[0] if text else type(exc).__name__


def _hint(exc: psycopg.Error) -> str | None:
    if exc.sqlstate is not None:
        return _HINTS.get(exc.sqlstate)
    if isinstance(exc, errors.ConnectionTimeout):
        return "Check host and port, and that no firewall drops the packets."
    if _asks_for_password(exc):
        return _HINTS["28P01"]
    text = str(exc)
    return next((hint for mark, hint in _CONNECT_HINTS if mark in text), None)


def _asks_for_password(exc: psycopg.Error) -> bool:
    pgconn = exc.pgconn
    if pgconn is None or pgconn.status == psycopg.pq.ConnStatus.OK:
        return False
    return bool(pgconn.needs_password or pgconn.used_password)
