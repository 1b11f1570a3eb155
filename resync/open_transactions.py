"""Wait for transactions of the source that may be committing, or are not sent, and for no others.

What replay has applied of a table has its commit record in the WAL. All the same the transaction
may be invisible for a moment, or for as long as a synchronous standby takes: it would be in neither
a new snapshot nor what waits. One that has not begun to commit is harmless, however long it stays
open: its commit comes later in the stream, and waits there to be placed.

Unless it does not: what a transaction changed before a table was published is never sent, whenever
it commits. A copy contains it only if its snapshot sees it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pgrepl.catalog.writers import Writer, read_table_writers, read_writers, read_writing
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceUnavailable
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated

__all__ = ["await_commits", "await_writers", "still_suspect"]

logger = logging.getLogger(__name__)

_POLL_S = 0.1
#: Who waits longer than this says for whom.
_TOLD_AFTER_S = 2.0


class Holder(NamedTuple):
    """Who has a transaction: a session, or nobody while it is prepared."""

    pid: int | None
    gid: str | None


def await_commits(
    connection: Connection, endpoint: Endpoint, wait_s: float, pause: Callable[[float], None]
) -> None:
    """Return when no transaction that is open now can have written its commit record before.

    Raises
    ------
    SourceUnavailable
        naming those that may have, after ``wait_s`` seconds.

    """
    with translated(endpoint, "cannot look for open transactions"):
        ((since,),) = connection.execute("select clock_timestamp()").fetchall()
        _Waiting(
            connection,
            endpoint,
            _read(connection),
            "transactions that may be committing",
            "Run the same command again when they are over, or raise --wait. A role with"
            " pg_read_all_stats waits for fewer.",
        ).run(wait_s, pause, lambda holders: _read_proved(connection, holders, since))


def await_writers(
    connection: Connection,
    endpoint: Endpoint,
    tables: Collection[int],
    wait_s: float,
    pause: Callable[[float], None],
) -> None:
    """Return when the transactions are over that have changed tables, by their OIDs, until now.

    Raises
    ------
    SourceUnavailable
        naming those that are not, after ``wait_s`` seconds.

    """
    with translated(endpoint, "cannot look for open transactions"):
        _Waiting(
            connection,
            endpoint,
            {xid: Holder(pid, gid) for xid, pid, gid in read_table_writers(connection, tables)},
            "transactions that changed a table before it was published, whose changes are not sent",
            "Run the same command again when they are over, or raise --wait.",
        ).run(wait_s, pause, lambda _: ())


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Waits for transactions, and says for whom."""

    connection: Connection
    endpoint: Endpoint
    suspects: Mapping[str, Holder]
    what: str
    hint: str

    def run(
        self,
        wait_s: float,
        pause: Callable[[float], None],
        read_proved: Callable[[Collection[Holder]], Collection[Holder]],
    ) -> None:
        """Return when all of them are over, or proved to be harmless."""
        begin = time.monotonic()
        is_told = False
        suspects = self.suspects
        while suspects:
            proved = read_proved(suspects.values())
            # After the proof: whoever still has the transaction had it then.
            suspects = still_suspect(suspects, proved, _read(self.connection))
            if not suspects:
                return
            waited_s = time.monotonic() - begin
            if waited_s > wait_s:
                raise SourceUnavailable(
                    f"{self.endpoint}: {self.what}, which a copy must wait for:"
                    f" {_named(self.connection, suspects.values())}",
                    hint=self.hint,
                )
            if waited_s > _TOLD_AFTER_S and not is_told:
                is_told = True
                logger.warning(
                    "the copy waits for %s: %s",
                    self.what,
                    _named(self.connection, suspects.values()),
                )
            pause(_POLL_S)


def still_suspect(
    suspects: Mapping[str, Holder], proved: Collection[Holder], running: Mapping[str, Holder]
) -> dict[str, Holder]:
    """Return the transactions that still run and of which nothing is proved.

    One that was prepared meanwhile has no session any more, but runs.
    """
    return {
        xid: running[xid]
        for xid, holder in suspects.items()
        if xid in running and (running[xid] != holder or holder not in proved)
    }


def _read(connection: Connection) -> dict[str, Holder]:
    return {xid: Holder(pid, gid) for xid, pid, gid in read_writing(connection)}


def _read_proved(
    connection: Connection, holders: Collection[Holder], since: datetime
) -> Collection[Holder]:
    rows = connection.execute(
        load_query("pgrepl.resync", "open_transactions"),
        {
            "pids": [holder.pid for holder in holders if holder.pid is not None],
            "gids": [holder.gid for holder in holders if holder.gid is not None],
            "since": since,
        },
    )
    return {Holder(pid, gid) for pid, gid in rows}


def _named(connection: Connection, holders: Collection[Holder]) -> str:
    def is_one(writer: Writer) -> bool:
        return Holder(writer.pid, writer.gid) in holders

    return "; ".join(str(writer) for writer in read_writers(connection) if is_one(writer))
