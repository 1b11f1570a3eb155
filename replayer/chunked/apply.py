"""Apply changes of a table that is copied in chunks meanwhile, as far as no chunk contains them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL, Identifier

from pgrepl.config.model import OnConflict
from pgrepl.decoding.changes import DELETE, INSERT, Change, Layout, TableChanges
from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.key_staging import KeyStaging
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.chunked.visibility import Visibility, group_by_chunk
from pgrepl.replayer.chunked.zones import Division, Step, Zone, divide
from pgrepl.replayer.session import limit_waits
from pgrepl.replayer.shard.apply import TableFailed, TableLocked, apply_changes, shape_of, told
from pgrepl.replayer.shard.fold import net_of
from pgrepl.replayer.shard.merging.merge_sets import Conflict, Outcome, merge_leniently
from pgrepl.replayer.shard.merging.staging import write_staging
from pgrepl.replayer.target_table import TableName
from pgrepl.store.resync.resync_chunks import (
    LiveCopy,
    add_rereads,
    add_xids,
    find_live_copy,
    note_set_aside,
    read_chunk_rows,
    read_keys,
    restart_chunks,
)

__all__ = ["CopyLocked", "apply_live", "apply_spooled", "restart_copy"]


_STAGING = ("pg_temp", "pgrepl_open")
#: How long a lock of another session on the table is waited for: all other tables wait as long.
_TABLE_LOCK_S = 0.2
#: A row stands in the way that a chunk, or a row that is still to be copied, has put there.
_IN_THE_WAY = (Conflict, errors.UniqueViolation, errors.ExclusionViolation)

_Key = tuple[bytes, ...]
_Read = tuple[Layout, Change]


class CopyLocked(TableLocked):
    """Another session has a lock on the table, and not its copy in chunks, which is over soon."""


def apply_live(connection: Connection, source_id: int, changes: SpooledChanges) -> None:
    """Apply changes inside the caller's transaction.

    Raises
    ------
    CopyLocked
        when another session has a lock on the table itself.
    TableFailed
        when they cannot be applied; nothing of them is left.

    """
    with told(changes.table.shape), connection.transaction():
        _lock_copy(connection, changes.table.shape)
        copy = find_live_copy(connection, source_id, changes.table.name)
        if copy is None:
            # What its end looked like was seen after the lock on the shard: this cannot be.
            raise TableFailed("its resync ended while its changes were applied")
        _Application(connection, copy, changes).run()


def _lock_copy(connection: Connection, shape: Shape | None) -> None:
    """Take the lock that changes need, which the copy in chunks is not in the way of."""
    if shape is None:
        return
    ((before,),) = connection.execute("select current_setting('lock_timeout')").fetchall()
    limit_waits(connection, _TABLE_LOCK_S)
    try:
        connection.execute(SQL("lock table only {} in row exclusive mode").format(shape.identifier))
    except errors.LockNotAvailable as exc:
        raise CopyLocked(exc) from exc
    connection.execute("select set_config('lock_timeout', %s, true)", (before,))


def apply_spooled(
    connection: Connection, source_id: int, changes: SpooledChanges, on_conflict: OnConflict
) -> Outcome:
    """Apply changes of any table inside the caller's transaction.

    Raises
    ------
    TableFailed
        when they cannot be applied; nothing of them is left.

    """
    table, decoder = changes.table, changes.decoder
    if table.is_live:
        apply_live(connection, source_id, changes)
        return Outcome()
    messages = [message for message in changes.messages if not decoder.is_begin(message)]
    if not messages:
        return Outcome()
    read = decoder.read_changes(table.name, table.shape, messages)
    return apply_changes(connection, read, on_conflict)


def restart_copy(connection: Connection, source_id: int, name: TableName) -> None:
    """Have a table copied from its first key on: it was emptied, or it is another one."""
    copy = find_live_copy(connection, source_id, name)
    if copy is not None:
        restart_chunks(connection, copy.resync_id)


@dataclass(frozen=True, slots=True)
class _Located:
    """A change with the numbers of its keys in the staging table."""

    old: int | None
    new: int | None
    read: _Read


class _OtherKey(Exception):
    """Changes tell rows apart by other columns than chunks do."""


class _Application:
    def __init__(self, connection: Connection, copy: LiveCopy, changes: SpooledChanges) -> None:
        self._connection = connection
        self._copy = copy
        self._changes = changes
        self._encoding = changes.decoder.encoding
        #: The keys of changes, each with the first chunk that contains them, and their numbers.
        self._keys: dict[tuple[int, _Key], int] = {}

    def run(self) -> None:
        """Find out what is contained, and apply the rest."""
        resync_id = self._copy.resync_id
        chunks = read_chunk_rows(self._connection, resync_id)
        visibility = Visibility(chunks)
        groups, xids = group_by_chunk(self._changes.decoder, self._changes.messages, visibility)
        add_xids(self._connection, resync_id, xids)
        read = [(first, self._read(messages)) for first, messages in groups]
        if not read:
            return
        shape = shape_of(read[0][1])
        try:
            located = [change for group in read for change in self._locate(*group)]
        except _OtherKey:
            # All rows are copied again, by the new key.
            restart_chunks(self._connection, resync_id)
            return
        keys = read_keys(self._connection, resync_id)
        with KeyStaging(self._connection, shape, self._copy.key) as staging:
            staging.add(self._keys, self._encoding)
            if keys:
                staging.add_read(keys)
            zones = staging.zones(
                chunks,
                self._copy.last_key,
                {first for first, _ in self._keys if first != visibility.none},
                is_copied=self._copy.is_copied,
            )
            division = _divide(located, zones)
            wanted = [*division.reread, *self._apply_division(shape, division)]
            # Keys are known by the number of the first one that is equal.
            numbers = {key for key in wanted if isinstance(key, int)}
            if numbers:
                add_rereads(self._connection, resync_id, staging.texts(numbers))

    def _read(self, messages: Sequence[bytes]) -> TableChanges:
        table = self._changes.table
        read = self._changes.decoder.read_changes(table.name, table.shape, messages)
        shape_of(read)
        return read

    def _locate(self, first: int, changes: TableChanges) -> Iterator[_Located]:
        """Return changes with their keys."""
        key = tuple(self._copy.key)
        for run in changes.runs:
            layout = run.layout
            if set(layout.key) != set(key):
                raise _OtherKey
            old_of = layout.old_key(key)
            new_of = layout.new_key(key) if layout.columns else None
            for change in run.changes:
                old = new = None
                if change[0] != INSERT and old_of is not None:
                    old = self._number(first, old_of(change))
                if change[0] != DELETE and new_of is not None:
                    new = self._number(first, new_of(change))
                yield _Located(old, new, (layout, change))

    def _number(self, first: int, key: bytes | _Key) -> int:
        own = first, (key,) if isinstance(key, bytes) else key
        return self._keys.setdefault(own, len(self._keys))

    def _apply_division(self, shape: Shape, division: Division[_Read]) -> Iterable[object]:
        """Apply what is left of changes, and return keys whose rows could not be brought about."""
        failed: list[object] = []
        if division.exact:
            try:
                apply_changes(self._connection, self._as_changes(shape, division.exact), "error")
            except TableFailed as exc:
                if not isinstance(exc.__cause__, _IN_THE_WAY):
                    raise
                # They stay as they are until they are read again.
                failed = [key for step in division.exact for key in (step.old, step.new)]
        if division.open and not self._apply_open(shape, self._as_changes(shape, division.open)):
            # They stay as they are until their range is copied.
            note_set_aside(self._connection, self._copy.resync_id)
        return failed

    def _apply_open(self, shape: Shape, changes: TableChanges) -> bool:
        """Apply what can be of changes whose rows will be copied, and say whether all was."""
        try:
            with self._connection.transaction():
                staging = write_staging(
                    self._connection, shape, net_of(shape, changes), _STAGING, self._encoding
                )
                is_all = merge_leniently(self._connection, staging)
                self._connection.execute(SQL("drop table {}").format(Identifier(*_STAGING)))
        except _IN_THE_WAY:
            return False
        return is_all

    def _as_changes(self, shape: Shape, steps: Iterable[Step[_Read]]) -> TableChanges:
        """Return what is left of changes as changes."""
        result = TableChanges(self._changes.table.name, shape, encoding=self._encoding)
        removal = Layout(shape, (), self._copy.key)
        for step in steps:
            layout, change = step.change
            if step.action == change[0]:
                result.add_changes(layout, [change])
            elif step.action == INSERT:
                result.add_changes(layout, [(INSERT, *change[1:])])
            else:
                old = layout.old_key(removal.identity)
                if old is None:
                    raise AssertionError("a row that moves has a key before")
                key = old(change)
                values = (key,) if isinstance(key, bytes) else key
                result.add_changes(removal, [(DELETE, *values)])
            result.count += 1
        return result


def _divide(located: Sequence[_Located], zones: Mapping[int, tuple[int, Zone]]) -> Division[_Read]:
    """Divide changes; a key is the number of the first one that is equal to it."""

    def equal(number: int | None) -> int | None:
        return None if number is None else zones[number][0]

    #: The zone of a key differs between transactions.
    found = [
        {
            zones[number][0]: zones[number][1]
            for number in (change.old, change.new)
            if number is not None
        }
        for change in located
    ]
    steps = [
        Step(
            change.read[1][0],
            equal(change.old),
            equal(change.new),
            change.read[0].is_full,
            change.read,
        )
        for change in located
    ]
    return divide(steps, lambda place, key: found[place][key])  # type: ignore[index]
