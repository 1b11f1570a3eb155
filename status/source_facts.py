"""Ask a source. It may be down: then the error is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg.rows import class_row

from pgrepl.catalog.slots import read_slot
from pgrepl.catalog.unreadable import read_unreadable_tables
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.postgres.connect import connect
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.tables import read_publications
from pgrepl.status.facts import SourceFacts
from pgrepl.status.stream_facts import read_stream

__all__ = ["PATIENCE_S", "read_source"]

#: A source that takes longer counts as down.
PATIENCE_S = 3


def read_source(config: SourceConfig) -> SourceFacts:
    """Read where a source stands.

    Raises
    ------
    SourceError
        when it does not answer in time, or refuses.

    """
    if not config.is_database:
        return read_stream(config)
    endpoint = config.endpoint
    with (
        connect(endpoint, "status", patience_s=PATIENCE_S) as connection,
        translated(endpoint, "cannot read its status"),
        connection.cursor(row_factory=class_row(SourceFacts)) as cursor,
    ):
        # First: where the source stands is never before what its slot says.
        slot = read_slot(connection, config.slot)
        receiver = None if slot is None else slot.active_pid
        query = load_query("pgrepl.status", "source")
        (facts,) = cursor.execute(query, {"receiver": receiver}).fetchall()
        facts = facts if slot is None else facts.with_slot(slot)
        unpublished: Sequence[str] = ()
        if config.plugin == "pgoutput" and not facts.is_standby:
            found = read_publications(connection, config).unpublished(config.selection)
            unpublished = [shown_name(*table.key) for table in found]
        return replace(
            facts,
            unreadable=read_unreadable_tables(connection, config.selection),
            unpublished=unpublished,
        )
