"""Read bindings of a source from the target, in the order they were published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError, TargetError, UsageError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.migrations import check_schema_version, has_migrations, read_version
from pgrepl.store.progress.bindings import (
    Binding,
    find_binding,
    find_oldest,
    read_newest,
    read_since,
)
from pgrepl.store.sources import find_source
from pgrepl.store.streams import StreamOffset, read_offsets
from pgrepl.terminal import command

__all__ = ["Bindings", "read_bindings"]

#: The migration that brought bindings.
_NEEDED_VERSION = 4

#: The one that brought topics.
_STREAMS_VERSION = 20

_READING = "cannot read the bindings"


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
        with translated(self._endpoint, _READING):
            found = read_newest(self._connection, self._number, count)
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
        (newest,) = self.newest(1)
        with translated(self._endpoint, "cannot read the clock"):
            ((now,),) = self._connection.execute("select clock_timestamp()").fetchall()
        if at > now:
            raise UsageError(f"{at} lies ahead: the target's clock says {now}")
        with translated(self._endpoint, _READING):
            found = find_binding(self._connection, self._number, at)
            oldest = find_oldest(self._connection, self._number) or newest
        if found is None:
            raise UsageError(
                f'source "{self._name}": nothing is known of {at};'
                f" the oldest binding kept is of {oldest.at}",
                hint="Setting housekeeping.history says how long bindings are kept.",
            )
        return found

    def offsets(self, binding: Binding) -> Sequence[StreamOffset]:
        """Return what a binding stands for: of topics the offset of each partition, else none."""
        with translated(self._endpoint, _READING):
            if not has_migrations(self._connection, _STREAMS_VERSION):
                return ()
            return read_offsets(self._connection, self._number, binding.lsn)

    def since(self, at: datetime) -> Sequence[Binding]:
        """Return all that were published after one, in order."""
        with translated(self._endpoint, _READING):
            return read_since(self._connection, self._number, at)


@contextmanager
def read_bindings(endpoint: Endpoint, name: str) -> Iterator[Bindings]:
    """Open the target to read the bindings of a source.

    Raises
    ------
    TargetError
        when the target does not answer, or does not know the source.

    """
    with connect(endpoint, "progress") as connection:
        with translated(endpoint, _READING):
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
