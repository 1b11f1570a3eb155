"""Make the publications of a source, where the role may."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pgrepl.catalog.names import role_is_superuser
from pgrepl.config.model import SourceConfig
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.plan import guard_statements, publish_statements
from pgrepl.publications.tables import read_publications
from pgrepl.store.tables.unsent import Unsent
from pgrepl.terminal import command

__all__ = ["make_publications"]

logger = logging.getLogger(__name__)


def make_publications(
    connection: Connection, source: SourceConfig
) -> Mapping[tuple[str, str], Unsent]:
    """Bring the publications of a source up to date, before the slot that needs them.

    Returns the tables whose UPDATE and DELETE cannot be sent, see ``Publications.unsent``.

    Raises
    ------
    SourceError
        when the role may not.

    """
    with translated(source.endpoint, "cannot read the role's attributes"):
        is_superuser = role_is_superuser(connection)
    try:
        with translated(source.endpoint, "cannot publish the tables"), connection.transaction():
            # The database may have another default.
            connection.execute("set transaction read write")
            # Before the tables: none of them may lose its identity unnoticed.
            for guard in guard_statements() if is_superuser else ():
                connection.execute(guard)
            found = read_publications(connection, source)
            statements = publish_statements(
                source, found, connection.info.server_version, is_superuser=is_superuser
            )
            for statement in statements:
                connection.execute(statement)
    except SourceError as exc:
        exc.hint = (
            "Let a superuser do it:"
            f" {command('doctor', source.name, '--sql')} | psql -X -v ON_ERROR_STOP=1"
        )
        raise
    if not found.state.is_guarded:
        logger.warning(
            "only a superuser can have the publications kept: an UPDATE of a table that loses its"
            " replica identity would fail on the source; see pgrepl doctor"
        )
    if statements:
        logger.info("tables published", extra={"slot": source.slot})
    return found.unsent(source.selection)
