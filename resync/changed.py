"""Start over with tables that were renamed, dropped, truncated or altered while a copy began."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pgrepl.catalog.tables import SourceTable, read_table_names
from pgrepl.config.model import Config, SourceConfig
from pgrepl.ddl_capture.missed import is_behind
from pgrepl.ddl_capture.source import is_capturing
from pgrepl.errors import SourceChanged
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.leftovers import forget_ended
from pgrepl.resync.report import ResyncOptions
from pgrepl.store.parked_ddl import find_group
from pgrepl.store.sources import SourceRow, find_source
from pgrepl.store.tables.copy_work import TableProgress
from pgrepl.store.tables.source_tables import read_source_oids

__all__ = ["TablesChangedError", "await_settled"]

_STAGE = "basebackup"
_POLL_S = 0.2


class TablesChangedError(Exception):
    """A copy cannot go on with its tables: they are not what they were when it began."""

    def __init__(
        self,
        tables: Sequence[SourceTable],
        error: SourceChanged,
        done: Sequence[TableProgress] = (),
    ) -> None:
        """Keep which tables are left, what was found, and what is copied already."""
        super().__init__(error.message)
        self.tables = tables
        self.error = error
        self.done = done


def await_settled(
    config: Config, source: SourceConfig, options: ResyncOptions, changed: TablesChangedError
) -> Sequence[tuple[str, str]]:
    """Wait until replay has applied the DDL to the copies, and return what the tables are called.

    Those that were dropped are not among them. Nobody may hold the locks of their resyncs: replay
    lets go of tables whose DDL would wait for them.

    Raises
    ------
    SourceChanged
        when replay does not, or when nobody captures DDL that renames tables.

    """
    with (
        connect(config.target.endpoint, _STAGE) as target,
        connect(source.endpoint, _STAGE) as session,
        translated(source.endpoint, "cannot read the catalogue"),
    ):
        row = find_source(target, source.name)
        deadline = time.monotonic() + options.wait_s
        while row is not None:
            names = read_table_names(session)
            busy = forget_ended(target, row, names)
            is_renamed = any(names.get(table.oid) != table.key for table in changed.tables)
            if is_renamed and not is_capturing(session):
                break
            is_held = any(table.oid in busy for table in changed.tables)
            is_late = is_behind(session, target, row, options.ddl_seen)
            if not (is_held or is_late) and _is_settled(target, row, changed.tables, names):
                return [names[table.oid] for table in changed.tables if table.oid in names]
            if time.monotonic() > deadline:
                break
            options.pause(_POLL_S)
    raise changed.error


def _is_settled(
    target: Connection,
    row: SourceRow,
    tables: Sequence[SourceTable],
    names: Mapping[int, tuple[str, str]],
) -> bool:
    """Whether the copies have the names of now, and no DDL waits with them."""
    copies = {oid: key for key, oid in read_source_oids(target, row.source_id).items()}
    keys = {copies[table.oid] for table in tables if table.oid in copies}
    if keys != {names[table.oid] for table in tables if table.oid in copies and table.oid in names}:
        return False
    return all(find_group(target, row.source_id, key).group_id is None for key in keys)
