"""Partitioned tables that have no partition yet: there are no rows to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from pgrepl.basebackup.snapshot import keep_new_snapshot
from pgrepl.catalog.tables import SourceTable
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.joining.join import Join, check_received, publish
from pgrepl.resync.sides import Sides

__all__ = ["make_empty_roots"]


def make_empty_roots(sides: Sides, roots: Sequence[SourceTable]) -> None:
    """Make partitioned tables that the target has not, as they are without partitions.

    Of their partitions to come DDL and changes are in the stream after the snapshot.
    """
    if not roots:
        return
    publish(sides, roots)
    check_received(sides, roots)
    keeper = keep_new_snapshot(sides.source.endpoint)
    with closing(keeper.connection):
        with sides.saying_for_whom(keeper.connection):
            keeper.lock(roots, sides.options.wait_s)
        with translated(sides.endpoint, "cannot make the tables"), sides.target.transaction():
            join = Join(sides, keeper, roots)
            join.make()
            join.show()
