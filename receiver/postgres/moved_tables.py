"""Changes that name a table as it was called before its schema was renamed.

A schema is renamed whoever writes into its tables. What a transaction wrote before the rename was
committed is printed with the old name, also where that transaction is committed after it; and by
then another schema may have the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgrepl.decoding.stream import StreamDecoder
from pgrepl.receiver.routing import TableName

__all__ = ["MovedTables"]


@dataclass(frozen=True, slots=True)
class _Move:
    """What one transaction renamed."""

    xid: int
    commit_lsn: int
    names: dict[TableName, TableName] = field(default_factory=dict)


class MovedTables:
    """The tables whose schema was renamed while a receiver runs."""

    def __init__(self) -> None:
        """Begin with none."""
        self._moves: list[_Move] = []
        self._names: set[TableName] = set()
        self._begin = b""

    def note(self, stream: StreamDecoder, renamed: Mapping[TableName, TableName]) -> None:
        """Note that the transaction of the last change gave tables other names than so far."""
        transaction = stream.transaction(self._begin)
        if not self._moves or self._moves[-1].xid != transaction.xid:
            self._moves.append(_Move(transaction.xid, int(transaction.commit_lsn)))
        names = self._moves[-1].names
        # One transaction may rename a schema several times; others saw only the first name.
        first = {now: was for was, now in names.items()}
        for was in renamed:
            names.pop(first.get(was, was), None)
        names.update({first.get(was, was): now for was, now in renamed.items()})
        self._names.update(names)

    def __contains__(self, name: TableName) -> bool:
        """Whether changes of that name may be of a table that has another one."""
        return name in self._names

    def called_now(self, stream: StreamDecoder, change: bytes, begin: bytes, codec: str) -> bytes:
        """Return a change with the name that its table has now.

        ``begin``: the message that began its transaction.
        """
        self._begin = begin
        if not self._moves:
            return change
        name = given = stream.table_name(change, codec)
        if name not in self._names:
            return change
        position = stream.position_of(change)
        xid = stream.transaction(begin).xid
        for move in self._moves:
            if position is not None and position < move.commit_lsn and xid != move.xid:
                name = move.names.get(name, name)
        return change if name == given else stream.put_into_schema(change, name[0], codec)
