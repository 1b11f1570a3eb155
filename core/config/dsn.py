"""Connection strings that never show their secrets.

A DSN is any libpq conninfo or URI. libpq resolves it, passwords included (passfile, service,
environment); pgrepl only passes it on, and shows of it what is no secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from urllib.parse import unquote

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = [
    "MASK",
    "URI_USERINFO",
    "Dsn",
    "DsnError",
    "Endpoint",
    "Side",
    "mask_uris",
    "uri_passwords",
]

MASK = "********"
_SECRET_KEYS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_SHOWN_KEYS = ("service", "host", "hostaddr", "port", "dbname", "user")

# libpq quotes parts of the DSN when it cannot read one, and a part may be the password. Only an
# option's name at the very beginning, or in a URI after the question mark, is certain to be none.
_UNKNOWN_OPTION = re.compile(
    r'invalid (?:connection option|URI query parameter):? "([a-z_]{1,40})"'
)

#: The beginning of a URI with a password, for Python and for Java. Up to the last "@": whoever
#: forgot to encode a character of the password still wants it hidden. In "k8s://https://…" the
#: first scheme is no user.
URI_USERINFO = r"://[^/?#\s:@]*:(?!//[^/?#\s:@]*:)\S*@"
_USERINFO = re.compile(r"(?<=://)([^/?#\s:@]*):(?!//[^/?#\s:@]*:)(\S*)@")

_NOT_A_DSN = "neither a libpq connection string nor a URI"
_ENCODE = 'the password of a URI must be percent-encoded: "%40" for "@", "%2F" for "/"'


class DsnError(ValueError):
    """A text is not a DSN; the reason holds none of its secrets."""


@dataclass(frozen=True, slots=True)
class Dsn:
    """A libpq connection string."""

    text: str = field(repr=False)
    #: The parameters as libpq reads them, secrets included.
    parameters: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what libpq cannot read, and what it would read as something else than meant."""
        if "\0" in self.text:
            raise DsnError(_NOT_A_DSN)
        parameters = _parse(self.text)
        host, port = parameters.get("host", ""), parameters.get("port", "")
        dbname = parameters.get("dbname", "")
        is_uri = self.text.startswith(("postgresql://", "postgres://"))
        if ("@" in host and not host.startswith(("/", "@"))) or (is_uri and "@" in dbname):
            raise DsnError(_ENCODE)
        if not all(part.isdecimal() for part in port.split(",") if part):
            raise DsnError(_ENCODE if is_uri else "the port is not a number")
        if "://" in dbname:
            # Some programs read a connection string there, with whatever it holds.
            raise DsnError("dbname must be the name of a database, not another connection string")
        object.__setattr__(self, "parameters", MappingProxyType(parameters))

    def __reduce__(self) -> tuple[type[Dsn], tuple[str]]:
        """Pickle the text alone."""
        return Dsn, (self.text,)

    def parameter(self, key: str) -> str | None:
        """Return a parameter as given here or by libpq's environment variables."""
        return self.lookup(key)[key]

    def lookup(self, *keys: str) -> dict[str, str | None]:
        """Return parameters as given here or by libpq's environment variables."""
        found = {key: self.parameters.get(key) for key in keys}
        if None in found.values():
            # libpq looks at everything that it knows, each time.
            for option in pq.Conninfo.get_defaults():
                key = option.keyword.decode()
                if key in found and found[key] is None and option.envvar and option.val:
                    found[key] = option.val.decode()
        return found

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

    def for_another_user(self, *, host: str, port: int, dbname: str) -> str:
        """Return the way to the database without user and secrets, for a superuser's psql.

        ``host``, ``port`` and ``dbname`` are what the DSN led to: psql must not fill in its own.
        """
        way = {"host": host, "port": str(port), "dbname": dbname}
        tls = {k: v for k, v in self.parameters.items() if k in ("sslmode", "sslrootcert")}
        return make_conninfo(**way, **tls)

    def __str__(self) -> str:
        """Return where it leads: host, port, database and user, never a secret."""
        parameters = self.parameters
        return make_conninfo(**{k: parameters[k] for k in _SHOWN_KEYS if k in parameters})


def _parse(text: str) -> dict[str, str]:
    try:
        return {key: str(value) for key, value in conninfo_to_dict(text).items()}
    except UnicodeError:
        raise DsnError(_NOT_A_DSN) from None
    except ProgrammingError as exc:
        unknown = _UNKNOWN_OPTION.search(str(exc))
        is_name = unknown and text.lstrip().startswith(unknown[1])
        is_in_uri = unknown and f"?{unknown[1]}=" in text
        raise DsnError(unknown[0] if unknown and (is_name or is_in_uri) else _NOT_A_DSN) from None


def mask_uris(text: str) -> str:
    """Strike out the passwords of all URIs in a text.

    >>> mask_uris("jdbc:postgresql://ada:s3cr3t@db/shop")
    'jdbc:postgresql://ada:********@db/shop'
    """
    return _USERINFO.sub(rf"\1:{MASK}@", text)


def uri_passwords(text: str) -> list[str]:
    """Return the passwords of all URIs in a text, as they stand there and decoded."""
    found = [match[2] for match in _USERINFO.finditer(text)]
    return [*found, *(unquote(password) for password in found)]


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
