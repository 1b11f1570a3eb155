"""A source that the target knows and the configuration does not have any more."""

from __future__ import annotations

from psycopg.sql import SQL, Literal

from pgrepl.config.dsn import Dsn, DsnError
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.drop.target_side import find_row
from pgrepl.errors import SourceError, UsageError
from pgrepl.postgres.connect import connect

__all__ = ["find_unconfigured", "unreached"]

_STAGE = "drop"


def find_unconfigured(config: Config, name: str, dsn: str | None) -> SourceConfig:
    """Return a source by what the target knows of it; without a DSN its own side has no address.

    Raises
    ------
    UsageError
        when the target does not know it either, or the DSN cannot be used.

    """
    way = _read_dsn(dsn)
    with connect(config.target.endpoint, _STAGE) as target:
        row = find_row(target, config.target.endpoint, name)
    if row is None:
        return config.source(name)
    return SourceConfig(
        name=name,
        dsn=way,
        slot=row.slot,
        schema=SchemaTemplate("{db}_{schema}"),
        selection=TableSelection.of(["*.*"]),
    )


def unreached(config: Config, source: SourceConfig, dbname: str) -> SourceError:
    """Return why the side of a source without a DSN was not touched, and what does it."""
    drop = SQL("SELECT pg_drop_replication_slot({})").format(Literal(source.slot)).as_string()
    return SourceError(
        f"{source.endpoint}: {config.path} does not have it, so its DSN is unknown: its"
        f' slot "{source.slot}" in database "{dbname}" may exist',
        hint=f"Run the same command with --dsn. Or run there, as a superuser: {drop}; and, unless"
        " another slot of that database needs the capture of DDL: DROP SCHEMA IF EXISTS pgrepl"
        " CASCADE; and then the same command with --source-is-gone.",
    )


def _read_dsn(text: str | None) -> Dsn:
    try:
        dsn = Dsn(text or "")
    except DsnError as exc:
        raise UsageError(f"--dsn: {exc}") from exc
    if dsn.has_password:
        raise UsageError(
            "--dsn: every user of this machine can see a password on a command line",
            hint="Put it into a passfile, or into PGPASSWORD.",
        )
    return dsn
