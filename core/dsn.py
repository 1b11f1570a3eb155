"""Connection strings that never show their secrets.

A DSN is any libpq conninfo or URI. libpq resolves it, passwords included (passfile, service,
environment); pgrepl only passes it on, and shows of it what is no secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ["MASK", "Dsn", "DsnError", "Endpoint", "Side"]

MASK = "********"
_SECRET_KEYS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key"})
_SHOWN_KEYS = ("service", "host", "hostaddr", "port", "dbname", "user")

# libpq quotes parts of the DSN when it cannot read one, and a part may be the password. Only this
# message quotes a mere option name.
_SAFE_REASON = re.compile(r'invalid (connection option|URI query parameter):? "[a-z_]{1,40}"')


class DsnError(ValueError):
    """A text is not a DSN; the reason holds none of its secrets."""


@dataclass(frozen=True, slots=True)
class Dsn:
    """A libpq connection string."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what libpq cannot read."""
        parameters = self.parameters
        host = parameters.get("host", "")
        if "@" in host and not host.startswith(("/", "@")):
            message = 'the password of a URI must be percent-encoded: write "%40" for "@"'
            raise DsnError(message)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters as libpq reads them, secrets included."""
        try:
            return {key: str(value) for key, value in conninfo_to_dict(self.text).items()}
        except ProgrammingError as exc:
            reason = _SAFE_REASON.search(str(exc))
            raise DsnError(
                reason[0] if reason else "neither a libpq connection string nor a URI"
            ) from None

    def parameter(self, key: str) -> str | None:
        """Return a parameter as given here or by libpq's environment variables."""
        given = self.parameters.get(key)
        if given is not None:
            return given
        for option in pq.Conninfo.get_defaults():
            if option.keyword.decode() == key and option.envvar and option.val:
                return option.val.decode()
        return None

    @property
    def dbname(self) -> str | None:
        """The database, unless only a service file or the server knows it."""
        named = self.parameter("dbname")
        if named is None and self.parameter("service") is None:
            return self.parameter("user")
        return named

    @property
    def has_password(self) -> bool:
        """Whether a secret stands in the text itself."""
        return not _SECRET_KEYS.isdisjoint(self.parameters)

    def masked(self) -> str:
        """Return the DSN with its secrets struck out."""
        shown = {k: MASK if k in _SECRET_KEYS else v for k, v in self.parameters.items()}
        return make_conninfo(**shown)

    def for_another_user(self) -> str:
        """Return the way to the database without user and secrets, for a superuser's psql."""
        personal = _SECRET_KEYS | {"user", "passfile", "options", "application_name"}
        return make_conninfo(**{k: v for k, v in self.parameters.items() if k not in personal})

    def __str__(self) -> str:
        """Return where it leads: host, port, database and user, never a secret."""
        parameters = self.parameters
        return make_conninfo(**{k: parameters[k] for k in _SHOWN_KEYS if k in parameters})


class Side(Enum):
    """Which of the two databases is meant."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A database that pgrepl talks to, by the name that messages use."""

    side: Side
    name: str
    dsn: Dsn

    def __str__(self) -> str:
        """Return the words for a message: ``source "shop"`` or ``target``."""
        return f'source "{self.name}"' if self.side is Side.SOURCE else "target"
