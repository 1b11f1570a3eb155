"""May receiving go on with the server that pg_upgrade made of a source? Pure judgement.

Such a server has another system identifier, later positions, and the same OIDs and transaction ids.
From PostgreSQL 17 on pg_upgrade brings the slot along, and refuses while it has not confirmed all
that there is. Before, the slot is made again, and two things have to be shown: that the old server
ended with everything received, which it says itself when it shuts down; and that nobody wrote on
the new one before its slot was there. The latter is what its statistics tell: they begin with the
server, and hold what a session wrote when that session is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.catalog.slots import Slot
from pgrepl.config.naming import shown_name
from pgrepl.errors import SourceError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.catalog import SourceFacts
from pgrepl.store.sources import SourceRow
from pgrepl.terminal import command, counted

__all__ = [
    "WRITTEN",
    "Doubt",
    "Evidence",
    "UpgradedTable",
    "check_same_database",
    "find_doubt",
    "find_written",
    "is_migrated",
]

#: From this version on pg_upgrade brings slots along.
_SLOTS_MIGRATE = 170000

#: Why a table is copied again.
WRITTEN = "it was written after pg_upgrade and before its slot was made again"

_Name = tuple[str, str]
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UpgradedTable:
    """A row of ``sql/upgraded_tables.sql``."""

    schema: str
    name: str
    #: None: there is no such table.
    oid: int | None
    is_written: bool
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row of ``sql/upgrade_evidence.sql``."""

    is_counting: bool
    has_all_counts: bool
    #: Captured DDL statements.
    ddl_count: int
    #: Other sessions of the database.
    session_count: int
    prepared_count: int


def check_same_database(
    row: SourceRow,
    facts: SourceFacts,
    received: Lsn,
    known: Mapping[_Name, int],
    found: Sequence[UpgradedTable],
) -> None:
    """Make sure that this is the database that was copied, on a server that pg_upgrade made.

    Raises
    ------
    SourceError
        when it is not, or it cannot be told.

    """
    again = f"Copy it again: {command('basebackup', row.name, '--restart')}."
    told = f'source "{row.name}" is not what pg_upgrade makes of the server that was copied'
    if facts.is_standby:
        raise SourceError(
            f'source "{row.name}" is a standby', hint="Let the DSN lead to the primary."
        )
    if facts.flush_lsn is None or facts.flush_lsn <= received:
        raise SourceError(
            f"{told}: it stands at {facts.flush_lsn}, and that was received up to {received}",
            hint=again,
        )
    here = {(table.schema, table.name): table.oid for table in found}
    others = [
        name for name, oid in known.items() if here.get(name) is not None and here[name] != oid
    ]
    same_count = sum(here.get(name) == oid for name, oid in known.items())
    if others:
        some = ", ".join(shown_name(*name) for name in others[:_SHOWN])
        raise SourceError(
            f"{told}: {counted(len(others), 'table')} of the same name have another OID: {some}",
            hint="Let replay apply what is received, if these were made again there shortly before."
            f" Else the database was restored from a dump. {again}",
        )
    if not same_count:
        raise SourceError(f"{told}: it has none of its tables", hint=again)


def is_migrated(row: SourceRow, version: int | None, slot: Slot | None, plugin: str) -> bool:
    """Whether pg_upgrade brought the slot along, and so made sure that all was received.

    ``version`` is the old server's; None: it is not known.
    """
    return (
        (version or 0) >= _SLOTS_MIGRATE
        and slot is not None
        and slot.plugin == plugin
        and slot.dbname == row.dbname
        and not slot.is_lost
    )


@dataclass(frozen=True, slots=True)
class Doubt:
    """What keeps it open whether something is missing, and what can be done about it."""

    reason: str
    remedy: str = ""


def find_doubt(evidence: Evidence, *, is_shut_down: bool) -> Doubt | None:
    """Return what keeps it open whether something is missing; None: nothing does."""
    if not is_shut_down:
        return Doubt(
            "nothing shows that the old server was received to its end",
            "A receiver has to run while that server shuts down: start the old server again, let"
            " pgrepl receive catch up, shut the server down, and upgrade once more.",
        )
    if not evidence.is_counting or not evidence.has_all_counts:
        return Doubt(
            "its statistics do not tell what was written since pg_upgrade: track_counts is off, or"
            " they were reset, or it crashed"
        )
    if evidence.ddl_count:
        return Doubt("DDL was run on it since pg_upgrade, which nobody received")
    if evidence.session_count:
        return Doubt(
            f"{counted(evidence.session_count, 'other session')} of the database may have written"
            " what is not counted yet",
            "End them (pg_terminate_backend), keep others away, and run the same command again.",
        )
    if evidence.prepared_count:
        return Doubt(
            f"{counted(evidence.prepared_count, 'prepared transaction')} of it may have begun"
            " before its slot was made",
            "Settle them (pg_prepared_xacts), and run the same command again.",
        )
    return None


def find_written(found: Sequence[UpgradedTable], filled: Collection[_Name]) -> Sequence[_Name]:
    """Return the tables that were written before the slot was made.

    ``filled``: those whose copy has rows. One that is empty on the source was truncated, which is
    not counted; unless that is received and not applied yet, and then a copy does no harm.
    """
    return [
        (table.schema, table.name)
        for table in found
        if table.oid is not None
        and (table.is_written or (table.is_empty and (table.schema, table.name) in filled))
    ]
