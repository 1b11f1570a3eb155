"""Where the monitor listens, and who may ask it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgrepl.errors import ConfigError, UsageError

__all__ = ["TOKEN_FILE_VARIABLE", "TOKEN_VARIABLE", "Address", "read_token"]

#: The token itself, or the file that holds it.
TOKEN_VARIABLE = "PGREPL_MONITOR_TOKEN"  # noqa: S105  the name of a variable
TOKEN_FILE_VARIABLE = "PGREPL_MONITOR_TOKEN_FILE"  # noqa: S105

_ADDRESS = re.compile(r"(?:(?P<host>[^\[\]:]+|\[(?P<v6>[0-9A-Fa-f:.]+)\]):)?(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65_535
#: RFC 6750 allows these in a token.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port to listen on, and the token that requests must have."""

    host: str
    port: int
    #: None: any client that reaches it may ask.
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(
        cls, text: str, *, token: str | None = None, is_open: bool = False, option: str
    ) -> Address:
        """Read ``[HOST:]PORT``; without a host it is the loopback address.

        Raises
        ------
        UsageError
            when it is no address, or one that others reach and there is no token, unless
            ``is_open`` says that this is meant.

        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match["port"]) > _HIGHEST_PORT:
            raise UsageError(f"{option}: {text} is not [HOST:]PORT")
        host = match["v6"] or match["host"] or "127.0.0.1"
        address = cls(host=host, port=int(match["port"]), token=token)
        if token is None and not is_open and not address.is_loopback:
            raise UsageError(
                f"{option}: {text} is reachable from other machines, and no token is set",
                hint=f"Set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, or listen on 127.0.0.1 behind"
                " a proxy that asks who it is.",
            )
        return address

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host


def read_token(environment: Mapping[str, str], path: Path | None = None) -> str | None:
    """Return the token out of a file or the environment; None when none is set.

    Raises
    ------
    ConfigError
        when it cannot be read, or is none.

    """
    given = environment.get(TOKEN_FILE_VARIABLE)
    file = path or (Path(given) if given else None)
    if file is None:
        token, where = environment.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        where = str(file)
        try:
            token = file.read_text(encoding="utf-8").strip()
        except OSError as exc:
            reason = (exc.strerror or "").lower()
            raise ConfigError(f"cannot read the token in {file}: {reason}") from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"the token in {file} is not text") from exc
    if not _TOKEN.fullmatch(token) or len(token) < _SHORTEST_TOKEN:
        raise ConfigError(
            f"{where} holds no token: {_SHORTEST_TOKEN} or more letters, digits and ._~+/=-",
            hint="Make one: openssl rand -hex 32",
        )
    return token
