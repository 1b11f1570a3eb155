"""Changes that were records of a topic or a file: one that cannot be applied is parked alone.

Nearly always all changes of a table are applied at once. Where that fails they are applied in
pieces, in their order, so that a few bad ones among many cost little. What cannot be applied alone
is parked with its place, in the transaction that applies all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pgrepl.config.model import OnConflict, OnError
from pgrepl.decoding.changes import TableChanges
from pgrepl.decoding.payload import PayloadDecoder, TableName
from pgrepl.decoding.shape import Shape
from pgrepl.errors import SpoolError
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.apply import (
    TAKEN,
    TableFailed,
    TableLocked,
    apply_changes,
    shape_of,
    told,
)
from pgrepl.replayer.shard.fold import KeyedNet, net_of, split_by_key
from pgrepl.replayer.shard.merging.arrays import (
    FEW_ROWS,
    ArrayStatement,
    array_statements,
    can_send_arrays,
    start,
    upsert_statements,
)
from pgrepl.replayer.shard.merging.merge_sets import Conflict
from pgrepl.replayer.shard.merging.reused_stages import ReusedStages
from pgrepl.replayer.shard.record_pieces import Pieces
from pgrepl.store.spool.spool_rows import PartKey, read_part
from pgrepl.store.streams import ParkedRecord, park_records

__all__ = ["RecordPolicy", "Spooled", "apply_records", "read_spooled"]

#: Values that do not fit, constraints, what a trigger or a view of a person's refuses.
_RECORDS_FAULT = ("22", "23", "44", "P0001")
#: So many are kept before they are written.
_AT_ONCE = 1000


class Spooled(NamedTuple):
    """Changes of a table as they stand in the spool, with the begin messages before them."""

    decoder: PayloadDecoder
    messages: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class RecordPolicy:
    """What is done about changes that cannot be applied."""

    source_id: int
    on_error: OnError
    on_conflict: OnConflict


def read_spooled(
    connection: Connection, source_id: int, name: TableName, keys: Iterable[PartKey]
) -> Iterable[Spooled]:
    """Return the changes of a table out of some parts of the spool, a part at a time."""
    for key in keys:
        part = read_part(connection, source_id, key)
        yield Spooled(part.decoder, part.decoder.extract(part.payload, name))


def apply_records(
    connection: Connection,
    policy: RecordPolicy,
    table: tuple[TableName, Shape | None],
    pieces: Iterable[Spooled],
    failed: TableFailed,
) -> int:
    """Apply changes that could not be applied together, and return how many records are parked.

    Raises
    ------
    TableFailed
        when they are not of records, or it is not a record's fault; nothing of them is left.

    """
    if not _is_a_records(failed):
        raise failed
    work = _Work(connection, policy, *table, failed, ReusedStages(connection))
    with connection.transaction():
        for piece in pieces:
            work.take(piece)
        work.write()
    return work.count


def _is_a_records(failed: TableFailed) -> bool:
    """Whether a failure is of single changes, and not of the table as a whole."""
    if isinstance(failed, TableLocked):
        return False
    if failed.sqlstate is not None:
        return failed.sqlstate.startswith(_RECORDS_FAULT)
    return isinstance(failed.__cause__, Conflict | SpoolError)


@dataclass(slots=True)
class _Work:
    connection: Connection
    policy: RecordPolicy
    name: TableName
    shape: Shape | None
    #: Why all of them together could not be applied.
    failed: TableFailed
    stages: ReusedStages
    count: int = 0
    pieces: Pieces = field(default_factory=Pieces)
    _parked: list[ParkedRecord] = field(default_factory=list)

    def take(self, piece: Spooled) -> None:
        """Apply changes, or park their records."""
        decoder = piece.decoder
        begins: list[bytes] = []
        changes: list[bytes] = []
        for message in piece.messages:
            (begins if decoder.is_begin(message) else changes).append(message)
        if len(begins) != len(changes) or not all(map(decoder.names_records, begins)):
            # They are of no records, or of a receiver that did not name them.
            raise self.failed

        def is_applied(at: int, end: int) -> bool:
            try:
                self._apply(decoder.read_changes(self.name, self.shape, changes[at:end]))
            except TableFailed as failed:
                if not _is_a_records(failed):
                    raise
                if end - at == 1:
                    self._park(decoder, begins[at], failed)
                return False
            return True

        self.pieces.run(len(changes), is_applied)

    def write(self) -> None:
        """Write the records that are parked."""
        park_records(self.connection, self.policy.source_id, self._parked)
        self._parked = []

    def _apply(self, changes: TableChanges) -> None:
        if changes.count > FEW_ROWS or not self._apply_few(changes):
            apply_changes(self.connection, changes, self.policy.on_conflict, self.stages)

    def _apply_few(self, changes: TableChanges) -> bool:
        """Apply changes without a staging table, if that can be; whether they are."""
        try:
            with told(self.shape), self.connection.transaction():
                statements = self._statements(changes)
                if statements is None:
                    return False
                for statement in statements:
                    cursor = start(self.connection, statement)
                    if statement.expected_count not in (None, cursor.rowcount):
                        raise Conflict(1, 0)
        except TableFailed as failed:
            if changes.count == 1 or not isinstance(failed.__cause__, TAKEN):
                raise
            # Unique values may move between the rows.
            return False
        return True

    def _statements(self, changes: TableChanges) -> Sequence[ArrayStatement] | None:
        """Return what applies changes; None: they have to be staged."""
        if not can_send_arrays(self.connection, changes.encoding):
            return None
        if len(split_by_key(changes.runs)) > 1:
            return None
        shape = shape_of(changes)
        net = net_of(shape, changes)
        if not isinstance(net, KeyedNet):
            return None
        if net.is_upsert:
            return upsert_statements(shape, net)
        return array_statements(shape, net) if self.policy.on_conflict == "error" else None

    def _park(self, decoder: PayloadDecoder, begin: bytes, failed: TableFailed) -> None:
        """Park the records of a change."""
        records = decoder.read_begin(begin).records
        if self.policy.on_error == "stop":
            reason = f"{records[-1]}: {failed.reason}"
            raise TableFailed(reason, failed.sqlstate, failed.outcome) from failed.__cause__
        self._parked += (ParkedRecord(*record, failed.reason) for record in records)
        self.count += len(records)
        if len(self._parked) >= _AT_ONCE:
            self.write()
