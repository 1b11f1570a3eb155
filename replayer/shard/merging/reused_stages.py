"""Staging tables for many tries in one transaction.

A table that is made stays locked to the end of its transaction, though it is dropped: thousands of
them would fill the server's table of locks. These are emptied instead.
"""

from __future__ import annotations

from itertools import count

from psycopg.sql import SQL, Identifier

from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.fold import KeyedNet, MultisetNet
from pgrepl.replayer.shard.merging.staging import create_staging

__all__ = ["ReusedStages"]

_numbers = count()


class ReusedStages:
    """The staging tables of one table. They end with the transaction."""

    def __init__(self, connection: Connection) -> None:
        """Make none yet."""
        self._connection = connection
        self._made: dict[tuple[bool, tuple[str, ...]], tuple[str, str]] = {}

    def ready(self, shape: Shape, net: KeyedNet | MultisetNet) -> tuple[str, str]:
        """Return an empty staging table; where one is made a rollback must not take it away."""
        is_keyed = isinstance(net, KeyedNet)
        own = is_keyed, net.key if isinstance(net, KeyedNet) else net.columns
        place = self._made.get(own)
        if place is None:
            place = ("pg_temp", f"pgrepl_records_{next(_numbers)}")
            create_staging(self._connection, shape, net, place)
            self._made[own] = place
        else:
            self._connection.execute(SQL("truncate {}").format(Identifier(*place)))
        return place
