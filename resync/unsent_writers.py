"""Wait for transactions whose changes are not sent, before a copy begins that relies on them."""

from __future__ import annotations

from collections.abc import Iterable

from pgrepl.catalog.tables import SourceTable
from pgrepl.lsn import Lsn
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.tables import read_joined
from pgrepl.resync.open_transactions import await_writers
from pgrepl.resync.sides import Sides
from pgrepl.store.tables.copy_start import CopyStart
from pgrepl.store.tables.source_tables import read_source_tables

__all__ = ["await_unsent"]


def await_unsent(sides: Sides, tables: Iterable[SourceTable]) -> None:
    """Wait for whoever changed a table before it was published and has not committed yet.

    A table that the last copy has as a published one was waited for then.

    Raises
    ------
    SourceUnavailable
        naming the transactions, when that lasts for too long.

    """
    if sides.source.plugin != "pgoutput":
        return
    keys = {table.oid: table.key for table in tables}
    with translated(sides.source.endpoint, "cannot read the publications"):
        joined = read_joined(sides.source_session, sides.source, keys)
    if not joined:
        return
    with translated(sides.endpoint, "cannot read the state of the tables"):
        snapshots = {
            row.key: row.start_snapshot for row in read_source_tables(sides.target, sides.source_id)
        }
    oids = {oid for oid, xid in joined if not _sees(snapshots.get(keys[oid]), xid)}
    options = sides.options
    await_writers(sides.source_session, sides.source.endpoint, oids, options.wait_s, options.pause)


def _sees(snapshot: str | None, xid: int) -> bool:
    """Whether a copy was made under a snapshot that sees a transaction."""
    return snapshot is not None and bool(CopyStart(Lsn(1), snapshot).contains()(xid, 0))
