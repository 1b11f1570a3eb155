"""Make the publications of a source, where the role may."""

from __future__ import annotations

import logging

from pgrepl.config.model import SourceConfig
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.plan import drop_statements, publish_statements
from pgrepl.publications.tables import read_publications
from pgrepl.terminal import command

__all__ = ["drop_publications", "make_publications"]

logger = logging.getLogger(__name__)


def make_publications(connection: Connection, source: SourceConfig) -> None:
    """Bring the publications of a source up to date, before the slot that needs them.

    Raises
    ------
    SourceError
        when the role may not.

    """
    with translated(source.endpoint, "cannot read the publications"):
        found = read_publications(connection, source)
    statements = publish_statements(source, found, connection.info.server_version)
    try:
        with translated(source.endpoint, "cannot publish the tables"), connection.transaction():
            for statement in statements:
                connection.execute(statement)
    except SourceError as exc:
        exc.hint = (
            "Let a superuser, or who owns the tables, do it:"
            f" {command('doctor', source.name, '--sql')} | psql -X -v ON_ERROR_STOP=1"
        )
        raise
    if statements:
        logger.info("tables published", extra={"slot": source.slot})


def drop_publications(connection: Connection, source: SourceConfig) -> None:
    """Remove the publications of a source, if there are any."""
    with translated(source.endpoint, "cannot drop the publications"), connection.transaction():
        for statement in drop_statements(source):
            connection.execute(statement)
