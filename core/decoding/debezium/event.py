"""A change event as Debezium's PostgreSQL connector sends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pgrepl.decoding.records.values import BadValue

__all__ = ["Event", "TransactionEnd", "read_end", "read_event"]

_OPS = frozenset("crudtm")
#: Before this version the counters of a transaction begin again when Debezium is restarted in it.
_COUNTS_ON = (3, 6, 1)
_LAST_LSN = 2**64 - 1
#: PostgreSQL counts time in 64 bits, from another year.
_LAST_US = 2**62
#: How the version begins of what ``pgrepl export`` wrote.
_OURS = "pgrepl-"
#: The end of the last transaction and the LSN of an event: texts in a list that is a text itself.
_SEQUENCE = re.compile(r'\[(?:"([0-9]{1,20})"|null), ?(?:"[0-9]{1,20}"|null)\]')
_END_ID = re.compile(r"([0-9]{1,20}):([0-9]{1,20})")
_VERSION_NUMBER = re.compile(r"[0-9]{1,9}")


class Event(NamedTuple):
    """What an event says."""

    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    schema: str
    table: str
    #: Where it stands in the source's log.
    lsn: int
    xid: int | None
    #: The end of the last transaction before this one; 0: there was none yet.
    last_commit: int
    is_snapshot: bool
    is_incremental: bool
    #: Which event of its transaction it is; None: it is in none, or nobody counts.
    order: int | None
    #: Whether the count goes on when Debezium is restarted in the middle.
    has_lasting_order: bool
    #: When its transaction committed, in microseconds since 1970.
    commit_us: int

    @property
    def start(self) -> int:
        """After what its transaction began: the last commit, or else its own place in the log."""
        return self.last_commit or self.lsn


def read_event(value: object) -> Event:
    """Read an event.

    Raises
    ------
    BadValue
        when it is none.

    """
    if not isinstance(value, dict) or "op" not in value or "source" not in value:
        raise BadValue("it is not a change event of Debezium's: op and source are missing")
    op, source = value["op"], value["source"]
    if not isinstance(op, str) or op not in _OPS or not isinstance(source, dict):
        raise BadValue("it is not a change event of Debezium's that is known")
    if source.get("connector") != "postgresql":
        raise BadValue("it does not come from Debezium's connector for PostgreSQL")
    transaction = value.get("transaction")
    snapshot = str(source.get("snapshot") or "false")
    is_incremental = snapshot == "incremental"
    lsn = source.get("lsn")
    if not isinstance(lsn, int) and not is_incremental:
        raise BadValue("it does not say its lsn")
    if isinstance(lsn, int) and not 0 <= lsn <= _LAST_LSN:
        raise BadValue("its lsn is none that PostgreSQL can have")
    order = transaction.get("total_order") if isinstance(transaction, dict) else None
    return Event(
        op=op,
        before=_row(value.get("before")),
        after=_row(value.get("after")),
        schema=str(source.get("schema") or ""),
        table=str(source.get("table") or ""),
        lsn=lsn if isinstance(lsn, int) else 0,
        xid=None if source.get("txId") is None else _integer(source["txId"]),
        last_commit=_last_commit(source.get("sequence")),
        is_snapshot=snapshot not in ("false", "incremental"),
        is_incremental=is_incremental,
        order=order if isinstance(order, int) else None,
        has_lasting_order=_counts_on(str(source.get("version"))),
        commit_us=_commit_us(source),
    )


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, from the transaction topic."""

    xid: int
    #: The end of its commit record: it rises from transaction to transaction.
    lsn: int
    #: How many events each table has in it.
    counts: Mapping[tuple[str, str], int]
    #: All events, those of no table too.
    event_count: int
    commit_us: int


def read_end(value: object) -> TransactionEnd | None:
    """Read a record of the transaction topic; None: it is no end.

    Raises
    ------
    BadValue
        when it is not a record of that topic.

    """
    if not isinstance(value, Mapping) or value.get("status") not in ("BEGIN", "END"):
        raise BadValue("it is not a record of Debezium's transaction topic")
    if value["status"] == "BEGIN":
        return None
    match = _END_ID.fullmatch(str(value.get("id")))
    if match is None:
        raise BadValue("a transaction's id has no LSN: it is of a Debezium before 2.0")
    xid, lsn = map(int, match.groups())
    if lsn > _LAST_LSN:
        raise BadValue("a transaction's id has no LSN that PostgreSQL can have")
    counts: dict[tuple[str, str], int] = {}
    try:
        for part in value.get("data_collections") or ():
            schema, _, table = str(part["data_collection"]).partition(".")
            counts[schema, table] = _integer(part["event_count"])
        event_count = _integer(value["event_count"])
        commit_us = 1000 * _integer(value["ts_ms"])
    except (KeyError, TypeError) as exc:
        raise BadValue("an end of a transaction does not say what it must") from exc
    return TransactionEnd(xid, lsn, counts, event_count, commit_us)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue("a number is none")
    return value


def _row(value: object) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise BadValue("its before or after is no row")


def _last_commit(sequence: object) -> int:
    """Read the first of two numbers."""
    if sequence is None:
        return 0
    match = _SEQUENCE.fullmatch(sequence) if isinstance(sequence, str) else None
    if match is None:
        raise BadValue("its source.sequence cannot be read")
    last = int(match[1] or 0)
    if last > _LAST_LSN:
        raise BadValue("its source.sequence has no LSN that PostgreSQL can have")
    return last


@lru_cache(maxsize=16)
def _counts_on(text: str) -> bool:
    """Whether counters go on after a restart; our own export sends nothing twice."""
    if text.startswith(_OURS):
        return True
    numbers = [part for part in text.split(".")[:3] if _VERSION_NUMBER.fullmatch(part)]
    return tuple(map(int, numbers)) >= _COUNTS_ON


def _commit_us(source: Mapping[str, Any]) -> int:
    exact, rough = source.get("ts_us"), source.get("ts_ms")
    if isinstance(exact, int):
        found = exact
    elif isinstance(rough, int):
        found = 1000 * rough
    else:
        raise BadValue("it does not say when its transaction committed")
    if abs(found) > _LAST_US:
        raise BadValue("its transaction committed at no time that PostgreSQL can have")
    return found
