"""DDL that replay applied to a copy while a run was about to take the table in hand."""

from __future__ import annotations

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceChanged

__all__ = ["overtaken"]


def overtaken(endpoint: Endpoint, table: SourceTable) -> SourceChanged:
    """Return the error for a table that has another name on the target by now, or none."""
    return SourceChanged(
        f"{endpoint}: table {table} got another name, or was dropped, while its copy began",
        hint="Run the same command again.",
    )
