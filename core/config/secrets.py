"""Which settings of Spark are secret, by their names and by their values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgrepl.config.dsn import MASK, URI_USERINFO, mask_uris

__all__ = ["SECRET_PATTERN", "is_secret", "mask_settings"]

# What makes a setting secret, in its name or in its value: the words that Spark itself looks for,
# and some more.
_HIDDEN_WORDS = (
    r"secret|passw(?:or)?d|passphrase|pass=|pwd=|token|credential"
    r"|(?:access|private|api)[._-]?key"
)
#: The same with URIs that hold a password, for Python and for Java, whatever the case.
SECRET_PATTERN = f"{_HIDDEN_WORDS}|{URI_USERINFO}"
_HIDDEN = re.compile(_HIDDEN_WORDS, re.IGNORECASE)
_SECRET = re.compile(SECRET_PATTERN, re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Whether a setting holds a secret."""
    return bool(_SECRET.search(name) or _SECRET.search(value))


def mask_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings with their secrets struck out."""
    return {
        key: MASK if _HIDDEN.search(key) or _HIDDEN.search(value) else mask_uris(value)
        for key, value in conf.items()
    }
