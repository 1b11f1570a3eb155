"""Say of new tables whether their updates and deletes can be told."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pgrepl.ddl_capture.apply.structure.differences import mapped_name
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition

__all__ = ["note_lacking_identity"]

logger = logging.getLogger(__name__)


def note_lacking_identity(target: Workspace, tables: Iterable[TableDefinition]) -> None:
    """Note which of some tables the command made without a replica identity."""
    for table in tables:
        if table.kind != "r" or mapped_name(table, target.names) not in target.made:
            continue
        if table.is_identified:
            continue
        target.notes.append("the table has no replica identity: updates would be lost")
        logger.warning(
            "new table has no replica identity",
            extra={"source": target.source.name, "table": f"{table.schema}.{table.name}"},
        )
