"""Whether a source still is the one whose copy began."""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.config import SourceConfig
from pgrepl.dsn import Endpoint
from pgrepl.errors import ConfigError, SourceError
from pgrepl.identity import Identity
from pgrepl.source_state import SourceRow

__all__ = ["check_same", "check_unchanged"]


def check_same(source: SourceConfig, row: SourceRow, identity: Identity) -> None:
    """Refuse to go on with the copy of another database, or with another slot.

    Raises
    ------
    ConfigError, SourceError
        naming the difference.

    """
    if row.slot != source.slot:
        raise ConfigError(
            f'source "{row.name}" was copied with slot "{row.slot}",'
            f' pgrepl.toml says "{source.slot}"',
            hint="Set the slot's name back, or begin anew with --restart.",
        )
    known = (row.system_identifier, row.dbname)
    if known != (identity.system_identifier, identity.dbname):
        raise SourceError(
            f"{source.endpoint} is another database than the one whose copy began",
            hint="Correct the DSN, or begin anew with --restart.",
        )


def check_unchanged(
    endpoint: Endpoint,
    known: Mapping[tuple[str, str], str | None],
    current: Mapping[tuple[str, str], str],
) -> None:
    """Refuse to go on when tables have other columns than their copies.

    Raises
    ------
    SourceError
        naming the tables.

    """
    changed = sorted(".".join(key) for key in known if known[key] != current.get(key))
    if changed:
        raise SourceError(
            f"{endpoint}: tables changed since the copy began: {', '.join(changed[:5])}",
            hint="Begin anew with --restart.",
        )
