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

from pgrepl.config.dsn import Endpoint, Side
from pgrepl.errors import (
    PgreplError,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetLocked,
    TargetUnavailable,
)

__all__ = [
    "is_refusal",
    "is_transient",
    "reason",
    "tell_endpoint",
    "translate",
    "translate_untold",
    "translated",
]

#: Classes and codes that pass by themselves. Keep the list narrow: whatever is not in it waits
#: for a person.
_TRANSIENT = (
    "08",  # connection exception
    "25006",  # read_only_sql_transaction: a standby to be promoted, or closed for a while
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "53000",  # insufficient_resources
    "53100",  # disk_full
    "53200",  # out_of_memory
    "53300",  # too_many_connections
    "55006",  # object_in_use: a slot or origin whose last user is still going away
    "55P03",  # lock_not_available
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now: starting up or shutting down
)

_DATA_EXCEPTION = "22"
#: What a statement says, and not who says it or when.
_REFUSALS = (
    "0A",  # feature not supported
    "22",  # data exception
    "2BP01",  # dependent_objects_still_exist
    "42",  # syntax error or access rule violation
    "54",  # program limit exceeded
)
_PRIVILEGE = "42501"

_HINTS = {
    "25006": "The server takes no writes: is it a standby, or is default_transaction_read_only on?",
    "28000": "Check the user and pg_hba.conf of the server.",
    "28P01": "Check the password: libpq takes it from ~/.pgpass, a service file or PGPASSWORD.",
    "3D000": "Check dbname in the DSN.",
    "42501": "The role lacks a privilege; pgrepl doctor prints the GRANT for those it knows.",
    "53100": "Free disk space on the server; what is stored stays whole.",
    "53200": "If it is out of shared memory, raise max_locks_per_transaction on the server.",
    "53300": "Raise max_connections on the server, or lower replay.shards.",
    "55P03": "Another session holds a lock on it; pg_locks and pg_stat_activity say which.",
    "57014": "The statement ran into a timeout or was cancelled.",
}

# A connection that is not made has no SQLSTATE, only a text. libpq's own is never translated in a
# Python process, which leaves LC_MESSAGES alone; the server's is, where its lc_messages says so.
# Each rule: a mark in the text, whether it passes by itself, what to do.
_CONNECT_RULES: tuple[tuple[str, bool, str], ...] = (
    ("Connection refused", True, "Is the server running there, and is the port right?"),
    ("failed to resolve host", True, "Check the host name in the DSN."),
    ("No such file or directory", True, "Is the server running, and is this its socket directory?"),
    (
        "local user with ID",
        False,
        "Give user=… in the DSN: this machine has no name for who runs this.",
    ),
    ("received invalid response to SSL", False, "That is not PostgreSQL; check host and port."),
    ("expected authentication request", False, "That is not PostgreSQL; check host and port."),
    ("does not support SSL", False, "Set sslmode in the DSN, or turn on ssl on the server."),
    ("certificate", False, "Check sslmode, sslrootcert and the server's certificate."),
    ("server closed the connection", True, "Is this PostgreSQL? Its log says why it closed."),
    ("too many c", True, "Raise max_connections on the server, or the role's CONNECTION LIMIT."),
    ("remaining connection slots", True, "Raise max_connections on the server."),
    ("the database system is", True, "Wait until it is up."),
    ("no password supplied", False, _HINTS["28P01"]),
    ("authentication failed", False, _HINTS["28P01"]),
    ("pg_hba.conf", False, _HINTS["28000"]),
    ('database "', False, _HINTS["3D000"]),
    ('role "', False, "Check user in the DSN."),
    ("unrecognized configuration parameter", False, "pgrepl needs PostgreSQL 15 or newer."),
)
_FATAL = "FATAL: "
#: Where an error has whose it is.
_ENDPOINT = "pgrepl_endpoint"


def translate(exc: psycopg.Error, endpoint: Endpoint, action: str) -> PgreplError:
    """Return the pgrepl error for a driver error met while doing ``action``."""
    passes = is_transient(exc)
    if endpoint.side is Side.SOURCE:
        kind: type[PgreplError] = SourceUnavailable if passes else SourceError
    else:
        kind = TargetUnavailable if passes else TargetError
        if isinstance(exc, errors.LockNotAvailable):
            kind = TargetLocked
    # Notes name what the server does not: which table a lock was waited for.
    where = "".join(f"{note}: " for note in getattr(exc, "__notes__", ()))
    return kind(f"{endpoint}: {action}: {where}{_reason(exc, endpoint)}", hint=_hint(exc))


@contextmanager
def translated(endpoint: Endpoint, action: str) -> Iterator[None]:
    """Raise what psycopg raises inside as an error of this endpoint."""
    try:
        yield
    except psycopg.Error as exc:
        raise translate(exc, endpoint, action) from exc


def tell_endpoint(exc: psycopg.Error, endpoint: Endpoint) -> None:
    """Note in an error whose session it is of."""
    exc.__dict__[_ENDPOINT] = endpoint


def translate_untold(exc: psycopg.Error) -> PgreplError | None:
    """Return the pgrepl error for one that nothing else translated; None: nobody knows whose."""
    endpoint = exc.__dict__.get(_ENDPOINT)
    return None if endpoint is None else translate(exc, endpoint, "a statement failed")


def is_transient(exc: psycopg.Error) -> bool:
    """Whether the same attempt may succeed a little later."""
    if exc.sqlstate is not None:
        return exc.sqlstate.startswith(_TRANSIENT)
    if not isinstance(exc, psycopg.OperationalError):
        # In the middle of a COPY libpq tells of a broken connection by a result without a SQLSTATE.
        return type(exc) is psycopg.DatabaseError
    rule = _connect_rule(exc)
    # Without a rule the connection broke, or a server refused it in another language: a password
    # that was asked for is then the likeliest reason.
    return rule[1] if rule is not None else not _asked_for_password(exc)


def is_refusal(exc: psycopg.Error) -> bool:
    """Whether a server refuses a statement for what it says, whoever says it and when."""
    state = exc.sqlstate
    return state is not None and state != _PRIVILEGE and state.startswith(_REFUSALS)


def reason(exc: psycopg.Error) -> str:
    """Return what a server said, without any row's value."""
    if exc.sqlstate is not None and exc.sqlstate.startswith(_DATA_EXCEPTION):
        condition = re.sub(r"(?<!^)(?=[A-Z])", " ", type(exc).__name__).lower()
        return f"{condition} (SQLSTATE {exc.sqlstate})"
    if exc.diag.message_primary:
        return exc.diag.message_primary
    text = str(exc).removeprefix("connection failed: ").strip().splitlines()
    return text[0] if text else type(exc).__name__


def _reason(exc: psycopg.Error, endpoint: Endpoint) -> str:
    if isinstance(exc, errors.ConnectionTimeout):
        return f"no answer in time from {endpoint.dsn}"
    return reason(exc)


def _hint(exc: psycopg.Error) -> str | None:
    if exc.sqlstate is not None:
        return _HINTS.get(exc.sqlstate)
    if isinstance(exc, errors.ConnectionTimeout):
        return "Check host and port, and that no firewall drops the packets."
    rule = _connect_rule(exc)
    if rule is not None:
        return rule[2]
    return _HINTS["28P01"] if _asked_for_password(exc) else None


def _connect_rule(exc: psycopg.Error) -> tuple[str, bool, str] | None:
    # What the server said stands after FATAL; before it, libpq names host and database.
    text = str(exc)
    text = text.partition(_FATAL)[2] or text
    return next((rule for rule in _CONNECT_RULES if rule[0] in text), None)


def _asked_for_password(exc: psycopg.Error) -> bool:
    pgconn = exc.pgconn
    if pgconn is None or pgconn.status == psycopg.pq.ConnStatus.OK:
        return False
    return bool(pgconn.needs_password or pgconn.used_password)
