"""Read bindings of a source from the target, in the order they were published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from psycopg.rows import class_row

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError, TargetError, UsageError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.migrations import check_schema_version, read_version
from pgrepl.store.sources import find_source
from pgrepl.terminal import command

__all__ = ["Binding", "Bindings", "read_bindings"]

#: The migration that brought bindings.
_NEEDED_VERSION = 4

_NEWEST = """
select at, lsn from (select at, lsn from replication.binding
                      where source_id = %(source_id)s order by at desc limit %(count)s) newest
 order by at
"""
_OLDEST = (
    "select at, lsn from replication.binding where source_id = %(source_id)s order by at limit 1"
)
_SINCE = """
select at, lsn from replication.binding
 where source_id = %(source_id)s and at > %(since)s order by at
"""
_AS_OF = """
select at, lsn from replication.binding
 where source_id = %(source_id)s and at <= %(at)s order by at desc limit 1
"""


@dataclass(frozen=True, slots=True)
class Binding:
    """From the time ``at`` on the target showed the source as it was at ``lsn``."""

    at: datetime
    lsn: Lsn


class Bindings:
    """The bindings of one source, read when asked."""

    def __init__(self, connection: Connection, endpoint: Endpoint, name: str, number: int) -> None:
        """Read over an open connection to the target."""
        self._connection = connection
        self._endpoint = endpoint
        self._name = name
        self._number = number

    def newest(self, count: int) -> Sequence[Binding]:
        """Return the last ones, in order.

        Raises
        ------
        TargetError
            when nothing was published yet.

        """
        found = self._read(_NEWEST, count=count)
        if not found:
            raise TargetError(
                f'source "{self._name}": nothing was published yet',
                hint="pgrepl replay publishes a binding with each batch.",
            )
        return found

    def as_of(self, at: datetime) -> Binding:
        """Return the binding that held at a time.

        Raises
        ------
        UsageError
            when nothing is known of that time: it lies before the oldest binding kept, or ahead.

        """
        self.newest(1)
        with translated(self._endpoint, "cannot read the clock"):
            ((now,),) = self._connection.execute("select clock_timestamp()").fetchall()
        if at > now:
            raise UsageError(f"{at} lies ahead: the target's clock says {now}")
        found = self._read(_AS_OF, at=at)
        if not found:
            (oldest,) = self._read(_OLDEST)
            raise UsageError(
                f'source "{self._name}": nothing is known of {at};'
                f" the oldest binding kept is of {oldest.at}",
                hint="Setting housekeeping.history says how long bindings are kept.",
            )
        return found[0]

    def since(self, at: datetime) -> Sequence[Binding]:
        """Return all that were published after one, in order."""
        return self._read(_SINCE, since=at)

    def _read(self, query: LiteralString, **parameters: object) -> Sequence[Binding]:
        with (
            translated(self._endpoint, "cannot read the bindings"),
            self._connection.cursor(row_factory=class_row(Binding)) as cursor,
        ):
            given = {"source_id": self._number, **parameters}
            return cursor.execute(query, given).fetchall()


@contextmanager
def read_bindings(endpoint: Endpoint, name: str) -> Iterator[Bindings]:
    """Open the target to read the bindings of a source.

    Raises
    ------
    TargetError
        when the target does not answer, or does not know the source.

    """
    with connect(endpoint, "progress") as connection:
        with translated(endpoint, "cannot read the bindings"):
            version = read_version(connection)
            check_schema_version(version)
            if version and version < _NEEDED_VERSION:
                raise SchemaVersionError(
                    f'target: schema "replication" has version {version}, which has no bindings',
                    hint="The next receive or replay of this version of pgrepl brings it up to"
                    " date.",
                )
            row = find_source(connection, name) if version else None
        if row is None:
            raise TargetError(
                f'source "{name}" was never copied', hint=f"Run: {command('basebackup', name)}"
            )
        yield Bindings(connection, endpoint, name, row.source_id)
