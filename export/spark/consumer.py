"""The consumer of a stream of Spark's, in the hands of the one process that plans its batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from pgrepl.errors import SpoolError, TargetError, UsageError
from pgrepl.export.spark.segments import SpoolReading
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import export_lock, take_lock, try_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.migrations import migrate
from pgrepl.store.spool.consumers import Consumer, add_consumer, find_consumer, pass_segment, touch
from pgrepl.terminal import command

__all__ = ["HeldConsumer"]

#: The process of a stream that was stopped may take a while to end.
_PATIENCE_S = 5.0
_POLL_S = 0.1
#: How often a stream that has nothing to read says so.
_TOUCH_S = 10.0


class HeldConsumer:
    """A consumer by its name; its lock is held as long as its session is open."""

    def __init__(self, reading: SpoolReading, name: str, keep: timedelta) -> None:
        """Connect to nothing yet."""
        self._reading = reading
        self._name = name
        self._keep = keep
        self._connection: Connection | None = None
        self._known: Consumer | None = None
        self._touched = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the session: tasks read with one of their own."""
        return {**self.__dict__, "_connection": None}

    @contextmanager
    def session(self, offset: dict[str, Any] | None = None) -> Iterator[Connection]:
        """Lend the session; with an offset, see that the spool is kept from there on.

        Raises
        ------
        SpoolError
            when the offset is of another consumer, or the consumer was let go.
        AlreadyRunning
            when another stream is the same consumer.

        """
        target = self._reading.target
        with translated(target, "cannot read the spool"):
            connection = self._open()
            if offset is not None:
                self._known = self._find(connection, UUID(offset["consumer"]))
            yield connection

    def begin(self) -> dict[str, Any]:
        """Return the offset of a new stream, whose consumer is made here."""
        reading = self._reading
        with self.session() as connection:
            migrate(connection, reading.target)
            found = find_consumer(connection, reading.source_id, self._name)
            if found is None:
                if not add_consumer(
                    connection,
                    reading.source_id,
                    self._name,
                    kind="spark",
                    destination="spark",
                    options={"tables": list(reading.tables)},
                    keep=self._keep,
                ):
                    raise TargetError(
                        f'replay has never run for source "{reading.source}"',
                        hint=f"Run: {command('replay', '--once')}",
                    )
                reach("export.stream_begun")
                found = find_consumer(connection, reading.source_id, self._name)
            if found is None or found.kind != "spark" or found.state != "starting":
                raise UsageError(
                    f'consumer "{self._name}" of source "{reading.source}" is that of another'
                    " checkpoint, or of an export",
                    hint="Name another one; or, to start over with a new checkpoint:"
                    f" {self._forget}",
                )
            self._known = found
        return {"consumer": str(found.id), "seq": found.seq}

    def rest(self, connection: Connection) -> None:
        """Note, now and then, that there is nothing to read."""
        if self._known is not None and time.monotonic() - self._touched > _TOUCH_S:
            touch(connection, self._known)
            self._touched = time.monotonic()

    def move(self, offset: dict[str, Any]) -> None:
        """Keep the spool no longer up to an offset."""
        with self.session(offset) as connection:
            pass_segment(
                connection, self._reading.source_id, UUID(offset["consumer"]), offset["seq"]
            )

    def close(self) -> None:
        """Let go of the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        if self._connection is not None:
            try:
                self._connection.execute("select")
            except psycopg.OperationalError:
                self.close()
            else:
                return self._connection
        connection = connect(self._reading.target, "spark")
        lock = export_lock(self._reading.source, self._name)
        end = time.monotonic() + _PATIENCE_S
        try:
            while not try_lock(connection, lock):
                if time.monotonic() > end:
                    take_lock(connection, lock)
                    break
                time.sleep(_POLL_S)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _find(self, connection: Connection, consumer_id: UUID) -> Consumer:
        found = find_consumer(connection, self._reading.source_id, self._name)
        if found is None or found.id != consumer_id:
            raise SpoolError(
                f'the checkpoint is of another consumer than "{self._name}" of source'
                f' "{self._reading.source}", or that was forgotten: the spool was not kept for it',
                hint="Give the consumer that the checkpoint began with, or start over with another"
                " checkpoint and another consumer.",
            )
        if found.lost_at is not None:
            raise SpoolError(
                f'consumer "{self._name}" was let go at {found.lost_at:%Y-%m-%d %H:%M}Z: the spool'
                " was not kept for it any longer",
                hint=f"{self._forget}, and start over with another checkpoint.",
            )
        return found

    @property
    def _forget(self) -> str:
        name = self._reading.source
        return command("export", name, "--to", "spark", "--consumer", self._name, "--forget")
