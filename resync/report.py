"""What a resync is asked for, and what it reports at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field

from pgrepl.catalog.unreadable import Unreadable
from pgrepl.config.naming import TableSelection
from pgrepl.errors import Interrupted
from pgrepl.lsn import Lsn
from pgrepl.resync.choice import WayAsked
from pgrepl.store.tables.copy_work import TableProgress

__all__ = ["CancelledError", "ResyncOptions", "ResyncReport"]


class CancelledError(Interrupted):
    """A person asked for the resync to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncOptions:
    """The options of one run."""

    tables: TableSelection
    #: Only those that something marked.
    is_where_needed: bool = False
    way: WayAsked = "auto"
    #: Bytes a second of all jobs together; None: no limit.
    max_rate: int | None = None
    jobs: int | None = None
    #: How long to wait for a lock, for replay, and for what commits on the source.
    wait_s: int = 300
    #: Whether processes of our own copy, whatever the master is.
    is_local: bool = False
    #: Whether to wait for replay, and start over, when a table changes as its copy begins; replay
    #: itself comes back later.
    starts_over: bool = True
    #: What is known of the log of DDL; who copies tables again and again keeps it.
    ddl_seen: MutableMapping[int, Lsn] = field(default_factory=dict)
    #: Sleeps, or raises to break it all off.
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport:
    """What was copied."""

    source: str
    tables: Sequence[TableProgress]
    #: Tables that nobody has any more, the source or the target; they wait no longer.
    gone: Sequence[tuple[str, str]]
    #: Tables that the role may not read; they stay as they are.
    unreadable: Sequence[Unreadable] = ()
    #: Tables that were copied and that the patterns do not take in any more; they stay as they are.
    passed_over: Sequence[tuple[str, str]] = ()
    seconds: float
