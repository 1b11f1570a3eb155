"""The position of an export on the target, and how it moves with what becomes visible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgrepl.errors import SpoolError, TargetError, UsageError
from pgrepl.export.plan import ExportPlan
from pgrepl.export.sinks.sink import Sink
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.store.progress.shard_progress import Fenced
from pgrepl.store.sources import SourceRow
from pgrepl.store.spool.consumers import (
    Consumer,
    activate,
    add_consumer,
    find_consumer,
    forget_prepared,
    move_to_prepared,
    prepare,
    remove_consumer,
)
from pgrepl.terminal import command

__all__ = ["ConsumerPosition"]


class ConsumerPosition:
    """The row of a consumer, in the hands of the one process that may move it."""

    def __init__(self, connection: Connection, row: SourceRow, plan: ExportPlan) -> None:
        """Touch nothing yet."""
        self._connection = connection
        self._row = row
        self._plan = plan

    def open(self, *, restart: bool) -> Consumer:
        """Return the consumer, which is made where there is none."""
        plan = self._plan
        if restart:
            remove_consumer(self._connection, self._row.source_id, plan.consumer)
        found = find_consumer(self._connection, self._row.source_id, plan.consumer)
        if found is None:
            is_added = add_consumer(
                self._connection,
                self._row.source_id,
                plan.consumer,
                kind=plan.kind,
                destination=plan.destination,
                options=plan.stored_options,
                keep=plan.keep,
            )
            if not is_added:
                raise TargetError(
                    f'replay has never run for source "{self._row.name}"',
                    hint=f"Run: {command('replay', '--once')}",
                )
            reach("export.consumer_added")
            found = self.read()
        self.check(found)
        return found

    def read(self) -> Consumer:
        """Return the consumer as it is now."""
        found = find_consumer(self._connection, self._row.source_id, self._plan.consumer)
        if found is None:
            raise Fenced("the consumer was removed by another program")
        return found

    def check(self, consumer: Consumer) -> None:
        """Refuse a consumer that is another, or that the spool was not kept for."""
        plan = self._plan
        again = "Start over with --restart, and with --snapshot for the rows that there are."
        if consumer.lost_at is not None:
            raise SpoolError(
                f'consumer "{consumer.name}" was let go at {consumer.lost_at:%Y-%m-%d %H:%M}Z: it'
                f" had not moved for {consumer.keep}, and what follows {consumer.lsn} is not in the"
                " spool any more",
                hint=again,
            )
        given = (plan.kind, plan.destination, plan.stored_options)
        if (consumer.kind, consumer.destination, dict(consumer.options)) != given:
            raise UsageError(
                f'consumer "{consumer.name}" was begun with other options: --to'
                f" {consumer.destination}, {_shown(consumer.options)}",
                hint=f"Give the same options, another --consumer, or: {again}",
            )

    def recover(self, consumer: Consumer, sink: Sink) -> Consumer:
        """Settle what an earlier run had prepared."""
        if sink.recover(consumer.prepared, int(consumer.memory.get("batch", 0))):
            move_to_prepared(self._connection, consumer)
        elif consumer.prepared is not None:
            forget_prepared(self._connection, consumer)
        else:
            return consumer
        return self.read()

    def settle(self, consumer: Consumer, sink: Sink, state: dict[str, Any]) -> Consumer:
        """Make the batch in hand visible, and move the position with it."""
        try:
            self._settle(consumer, sink, state)
        except Fenced:
            # Let go meanwhile?
            self.check(self.read())
            raise
        return self.read()

    def _settle(self, consumer: Consumer, sink: Sink, state: dict[str, Any]) -> None:
        if sink.is_empty:
            activate(self._connection, consumer, state)
            return
        reach("export.before_prepare")
        state["sink"] = sink.prepare(int(state["memory"]["batch"]))
        reach("export.after_prepare")
        prepare(self._connection, consumer, state)
        reach("export.before_commit")
        sink.commit()
        reach("export.after_commit")
        move_to_prepared(self._connection, consumer)


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items())
