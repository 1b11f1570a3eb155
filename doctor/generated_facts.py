"""What doctor asks a source about its generated columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.config.naming import shown_name
from pgrepl.doctor.source_facts import SourceFacts
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.source_code.locale import Dependence, read_dependence, read_locale

__all__ = ["GeneratedColumn", "GeneratedColumns", "read_generated"]

_SENT_FROM = 18_00_00


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A stored generated column of a replicated table."""

    schema: str
    table: str
    column: str
    #: Whether its expression uses code of the source.
    is_code: bool
    dependence: Dependence

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"{shown_name(self.schema, self.table)}.{self.column}"


@dataclass(frozen=True, slots=True)
class GeneratedColumns:
    """All of a source, and what its database computes them by."""

    columns: Sequence[GeneratedColumn]
    locale: str


def read_generated(connection: Connection, facts: SourceFacts) -> GeneratedColumns | None:
    """Read the generated columns of a source that is read through pgoutput; None: it sends them."""
    if facts.server.version_num >= _SENT_FROM:
        return None
    rows = connection.execute(
        load_query("pgrepl.doctor", "source_generated"),
        {"tables": [table.oid for table in facts.tables]},
    ).fetchall()
    columns = [
        GeneratedColumn(schema, table, column, is_code, read_dependence(connection, tree))
        for schema, table, column, tree, is_code in rows
    ]
    return GeneratedColumns(columns, read_locale(connection))
