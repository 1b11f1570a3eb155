"""Whether a source, and what is asked of it, still are those with which the copy began."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pgrepl.basebackup.report import CopyOptions
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.errors import ConfigError, SourceError, UsageError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.server import Identity
from pgrepl.store.rules import are_current
from pgrepl.store.sources import SourceRow

__all__ = ["check_begun", "check_options", "check_same", "check_unchanged"]

logger = logging.getLogger(__name__)


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
            hint="Set the slot's name back, or start over with --restart.",
        )
    known = (row.system_identifier, row.dbname)
    if known != (identity.system_identifier, identity.dbname):
        raise SourceError(
            f"{source.endpoint} is another database than the one whose copy began",
            hint="Correct the DSN, or start over with --restart.",
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
            hint="Start over with --restart.",
        )


def check_begun(target: Connection, source_id: int, source: SourceConfig) -> None:
    """Refuse to go on with a copy that began with other rules.

    Raises
    ------
    ConfigError
        when it did.

    """
    if not are_current(target, source_id, source.rules):
        raise ConfigError(
            f'the copy of source "{source.name}" began with other rules, or another salt',
            hint="Set them back, or start over with --restart.",
        )


def check_options(
    name: str, options: CopyOptions, began_with: Mapping[str, object] | None, *, is_done: bool
) -> None:
    """Refuse options that a copy which exists, whole or in part, cannot follow any more.

    Raises
    ------
    UsageError
        naming them.

    """
    what = f'the copy of source "{name}" {"was made" if is_done else "began"}'
    given = options.given()
    if given and began_with is None:
        logger.warning("%s already: options that say what to copy have no effect", what)
    different = [
        f"--{option}"
        for option, value in given.items()
        if began_with is not None and value != began_with[option]
    ]
    if options.is_schema_only:
        different.append("--schema-only")
    if different:
        raise UsageError(
            f"{what} with other options than {', '.join(different)}",
            hint="Leave that out, or start over with --restart.",
        )
