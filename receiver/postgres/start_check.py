"""May streaming begin here? Pure judgement over what source and target say.

Each refusal protects from going on over a gap: PostgreSQL itself would begin to send from wherever
its slot stands, and say so in its own log only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgrepl.catalog.slots import PLUGINS, Slot
from pgrepl.errors import SourceError, SourceUnavailable, SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.catalog import SourceFacts
from pgrepl.receiver.spool.spool_session import Progress
from pgrepl.store.sources import SourceRow
from pgrepl.terminal import command

__all__ = ["Identity", "check_confirmed", "check_start", "read_timeline_history"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What ``IDENTIFY_SYSTEM`` says."""

    system_identifier: int
    timeline: int
    #: Where the timelines ended that its own goes back to; empty on the first one.
    ends: Mapping[int, Lsn] = field(default_factory=dict)


def read_timeline_history(text: str) -> dict[int, Lsn]:
    r"""Read a timeline's history file: where each one that it goes back to ended.

    >>> read_timeline_history("1\t0/3000110\tno recovery target specified\n")
    {1: Lsn(50331920)}
    """
    ends = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split(maxsplit=2)
        if len(fields) > 1:
            ends[int(fields[0])] = Lsn.parse(fields[1])
    return ends


def check_start(
    *,
    row: SourceRow,
    origin: Lsn | None,
    progress: Progress | None,
    facts: SourceFacts,
    identity: Identity,
    plugin: str,
) -> Lsn:
    """Return where to begin.

    Raises
    ------
    SourceError, SpoolError
        when something may be missing between the target's position and what the slot sends.

    """
    _check_source(row, facts, identity)
    slot = _check_slot(row, facts.slot, plugin)
    start = _check_target(row, origin, progress)
    _check_timeline(row, start, identity)
    again = _again(row)
    if facts.flush_lsn is not None and start > facts.flush_lsn:
        raise SourceError(
            f'source "{row.name}" stands at {facts.flush_lsn}, but was received up to {start}:'
            " it was restored to the past",
            hint=again,
        )
    check_confirmed(row, start, slot.confirmed_flush_lsn)
    return start


def check_confirmed(row: SourceRow, start: Lsn, confirmed: Lsn | None) -> None:
    """Refuse a slot that does not send what comes after the start any more."""
    if confirmed is not None and confirmed > start:
        raise SourceError(
            f'slot "{row.slot}" of source "{row.name}" was consumed up to {confirmed} by'
            f" another client; the target has everything up to {start}, the rest is lost",
            hint=_again(row),
        )


def _check_source(row: SourceRow, facts: SourceFacts, identity: Identity) -> None:
    again = _again(row)
    if identity.system_identifier != row.system_identifier:
        raise SourceError(
            f'source "{row.name}" is another server than the one that was copied:'
            f" its system identifier is {identity.system_identifier},"
            f" not {row.system_identifier}",
            hint=f"Check the DSN. If pg_upgrade made it: {command('adopt', row.name)}. If"
            f" the server was replaced, {again[0].lower()}{again[1:]}",
        )
    if facts.is_standby:
        # It may be about to be promoted.
        raise SourceUnavailable(
            f'source "{row.name}" is a standby',
            hint="Check the DSN: it must lead to the primary that was copied.",
        )


def _check_timeline(row: SourceRow, start: Lsn, identity: Identity) -> None:
    """Refuse a source that went on from before what was received of it."""
    if identity.timeline == row.timeline:
        return
    end = identity.ends.get(row.timeline)
    told = (
        f'source "{row.name}" is on timeline {identity.timeline}, it was received on {row.timeline}'
    )
    if end is None:
        raise SourceError(
            f"{told}: it was restored or failed over, and may lack what was received",
            hint=_again(row),
        )
    if end < start:
        raise SourceError(
            f"{told}, which ended at {end}: what was received up to {start} is not all there",
            hint=f"It failed over and lost transactions that the target has. {_again(row)}",
        )


def _check_slot(row: SourceRow, slot: Slot | None, plugin: str) -> Slot:
    again = _again(row)
    where = f'slot "{row.slot}" of source "{row.name}"'
    change = command("receive", row.name, "--change-plugin")
    if slot is None or slot.plugin is None:
        raise SourceError(
            f"{where} does not exist any more",
            hint=f"If its plugin was being changed: {change}. Else copy it again:"
            f" {command('basebackup', row.name, '--restart')}.",
        )
    if slot.plugin in PLUGINS and slot.plugin != plugin:
        raise SourceError(
            f'{where} is of plugin "{slot.plugin}", the configuration says "{plugin}"',
            hint=f"Change it: {change}.",
        )
    if slot.plugin != plugin or slot.dbname != row.dbname:
        raise SourceError(
            f'{where} belongs to plugin "{slot.plugin}" and database'
            f' "{slot.dbname}", not to "{plugin}" and "{row.dbname}"',
            hint="It was created again. " + again,
        )
    if slot.is_lost:
        raise SourceError(
            f"{where} is lost: {slot.loss}",
            hint=f"{again} Raise {slot.limit}.",
        )
    return slot


def _check_target(row: SourceRow, origin: Lsn | None, progress: Progress | None) -> Lsn:
    recorded = row.consistent_point if progress is None else progress.received_lsn
    if origin is None or origin != recorded:
        raise SpoolError(
            f'replication origin "{row.slot}" stands at {origin}, but the target recorded'
            f" {recorded}: one of them was moved",
            hint=_again(row),
        )
    return origin


def _again(row: SourceRow) -> str:
    return f"Copy it again: {command('basebackup', row.name, '--restart')}."
