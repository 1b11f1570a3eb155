"""Is all well? Pure judgement over what source and target say.

Each problem has the exit code of the side that needs a hand, as everywhere in pgrepl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pgrepl.catalog.unreadable import named, open_them
from pgrepl.config.model import SourceConfig
from pgrepl.durations import print_duration
from pgrepl.errors import (
    DdlError,
    LagExceeded,
    PgreplError,
    SourceError,
    SpoolError,
    TargetError,
)
from pgrepl.status.facts import SourceFacts, TargetFacts
from pgrepl.status.lag import Positions, measure
from pgrepl.status.problems.consumer_problems import consumer_problems
from pgrepl.status.problems.problem import NAMED, Problem
from pgrepl.status.problems.table_problems import table_problems
from pgrepl.store.monitoring.overview import FailureOverview
from pgrepl.terminal import command

__all__ = ["SourceStatus", "State", "judge", "judge_unconfigured", "worst_code"]

#: From the worst on. Nothing can be said without the target; a lag may pass by itself.
_SEVERITY = (
    TargetError.exit_code,
    SourceError.exit_code,
    SpoolError.exit_code,
    DdlError.exit_code,
    LagExceeded.exit_code,
)

#: The first three before a copy is whole. Not configured: only the target knows it.
State = Literal[
    "absent", "creating", "copying", "unreachable", "not receiving", "streaming", "not configured"
]


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """All there is to say about a source."""

    name: str
    state: State
    source: SourceFacts | None
    target: TargetFacts | None
    positions: Positions | None
    problems: tuple[Problem, ...]
    #: How fast the source's server writes WAL: lately, or else on average.
    wal_bytes_per_s: float | None = None

    @property
    def seconds_to_loss(self) -> float | None:
        """How long the receiver may be away at this rate until the slot is lost; None: no limit."""
        return None if self.source is None else self.source.seconds_to_loss(self.wal_bytes_per_s)


def worst_code(problems: Iterable[Problem]) -> int:
    """Return the exit code of the worst problem, 0 when there is none."""
    codes = {problem.exit_code for problem in problems}
    return next((code for code in _SEVERITY if code in codes), max(codes, default=0))


def judge(
    config: SourceConfig,
    source: SourceFacts | PgreplError,
    target: TargetFacts | None,
    max_lag: timedelta | None,
    wal_bytes_per_s: float | None = None,
) -> SourceStatus:
    """Judge a source by what it says, or why it says nothing, and by what the target knows.

    The rate is that of the last minutes, where looks go back that far.
    """
    facts = None if isinstance(source, PgreplError) else source
    positions = None if target is None else measure(facts, target)
    problems: list[Problem] = []
    if isinstance(source, PgreplError):
        problems.append(Problem(source.exit_code, "source-down", source.message, source.hint))
    if target is None:
        problems.append(_uncopied("never-copied", _never(config), config))
    else:
        if facts is not None:
            problems += _source_problems(facts, target)
            problems += _privilege_problems(config, facts)
            problems += _publication_problems(config, facts)
        problems += _target_problems(config, facts, target)
        problems += table_problems(config, target)
        problems += consumer_problems(config, target)
        problems += map(_failure, target.failures)
        problems += _lag_problems(positions, max_lag)
    if wal_bytes_per_s is None and facts is not None:
        wal_bytes_per_s = facts.average_wal_bytes_per_s
    return SourceStatus(
        config.name,
        _state(facts, target),
        facts,
        target,
        positions,
        tuple(problems),
        wal_bytes_per_s,
    )


def judge_unconfigured(target: TargetFacts, path: Path) -> SourceStatus:
    """Judge a source that the target knows and the configuration does not have.

    Nothing receives it, so that its slot keeps WAL for ever; and its DSN is unknown.
    """
    row = target.row
    problem = _source(
        "not-configured",
        f'{path} does not have it, but its slot "{row.slot}" in database "{row.dbname}" may exist:'
        " nothing reads from it, and the WAL it keeps fills the disk of its server",
        f"Put [sources.{row.name}] back, or remove it: {command('drop', row.name, '--dsn', 'DSN')}",
        command("drop", row.name, "--dsn", "DSN"),
    )
    return SourceStatus(row.name, "not configured", None, target, measure(None, target), (problem,))


def _state(source: SourceFacts | None, target: TargetFacts | None) -> State:
    if target is None:
        return "absent"
    if target.row.state != "streaming":
        return target.row.state
    if source is None:
        return "unreachable"
    return "streaming" if source.is_active or target.is_receiving else "not receiving"


def _source_problems(source: SourceFacts, target: TargetFacts) -> Iterator[Problem]:
    row = target.row
    if source.is_standby:
        yield _source("standby", "it is a standby", "Let the DSN lead to the primary.")
    elif source.system_identifier != row.system_identifier:
        taken_on = command("adopt", row.name)
        yield _source(
            "other-server",
            "it is another server than the one that was copied",
            f"Was it upgraded by pg_upgrade? {taken_on} Else check the DSN, or copy it again:"
            f" {command('basebackup', row.name, '--restart')}",
            taken_on,
        )
    elif source.timeline != row.timeline:
        yield _source(
            "other-timeline",
            f"it is on timeline {source.timeline}, it was received on {row.timeline}",
            "It failed over or was restored. pgrepl receive goes on if it has all that was"
            f" received. If it has not: {command('basebackup', row.name, '--restart')}",
        )
    elif row.state != "creating" and not source.is_stream:
        yield from _slot_problems(source, target)


def _privilege_problems(config: SourceConfig, source: SourceFacts) -> Iterator[Problem]:
    if source.unreadable:
        yield _source(
            "unreadable",
            f"tables that can be replicated, but neither copied nor verified:"
            f" {named(source.unreadable)}",
            open_them(config.name, source.unreadable),
            command("doctor", config.name, "--sql"),
        )


def _publication_problems(config: SourceConfig, source: SourceFacts) -> Iterator[Problem]:
    if source.unpublished and source.plugin == "pgoutput":
        shown = ", ".join(source.unpublished[:NAMED])
        more = f" and {len(source.unpublished) - NAMED} more" * (len(source.unpublished) > NAMED)
        yield _source(
            "unpublished",
            f"tables whose changes are not sent, because they are not published: {shown}{more}",
            f"Publish them: {command('doctor', config.name, '--sql')}; then copy them again with"
            " pgrepl resync.",
            command("doctor", config.name, "--sql"),
        )


def _slot_problems(source: SourceFacts, target: TargetFacts) -> Iterator[Problem]:
    row = target.row
    slot = f'slot "{row.slot}"'
    if source.plugin is None:
        yield _broken("slot-missing", f"{slot} does not exist any more", row.name)
    elif source.slot_dbname != row.dbname:
        yield _broken("slot-foreign", f'{slot} is one of database "{source.slot_dbname}"', row.name)
    elif source.wal_status == "lost":
        yield _broken("slot-lost", f"{slot} is lost: {source.loss}", row.name)
    elif source.wal_status == "unreserved":
        yield _source(
            "slot-in-danger",
            f"{slot} will be lost at the source's next checkpoint",
            "Start the receiver, and raise max_slot_wal_keep_size.",
            command("receive", row.name),
        )
    received = row.received_lsn or row.consistent_point
    confirmed = source.confirmed_lsn
    # The source was asked first, and hears of nothing that is not on the target's disk.
    if confirmed is not None and received is not None and confirmed > received:
        yield _broken("gap", f"{slot} was consumed up to {confirmed} by another client", row.name)


def _target_problems(
    config: SourceConfig, source: SourceFacts | None, target: TargetFacts
) -> Iterator[Problem]:
    row = target.row
    if row.slot != config.slot:
        yield _target(
            "slot-renamed",
            f'it was copied with slot "{row.slot}", the configuration says "{config.slot}"',
            f'Set slot = "{row.slot}" in [sources.{config.name}].',
        )
    if row.state != "streaming":
        is_dropped = any(failure.stage == "drop" for failure in target.failures)
        if not is_dropped and not target.sessions.get("basebackup"):
            yield _uncopied("copy-unfinished", "its copy is not whole, and none runs", config)
        return
    again = command("basebackup", row.name, "--restart")
    again_hint = f"Copy it again: {again}"
    recorded = row.received_lsn or row.consistent_point
    if not config.is_database:
        pass
    elif not row.has_origin:
        missing = f'replication origin "{row.slot}" does not exist'
        made_again = command("adopt", row.name)
        yield _target(
            "origin-missing",
            missing,
            f"pg_upgrade of the target leaves it behind: {made_again} Else copy the source again:"
            f" {again}",
            made_again,
        )
    elif (
        # While a receiver runs, both move; and they are not seen to move at once.
        source is not None
        and not (source.is_active or target.is_receiving)
        and row.origin_lsn not in (None, recorded)
    ):
        yield Problem(
            SpoolError.exit_code,
            "origin-moved",
            f'replication origin "{row.slot}" stands at {row.origin_lsn},'
            f" but the target recorded {recorded}",
            again_hint,
            (again,),
        )
    if config.max_spool is not None and row.byte_count >= config.max_spool:
        yield Problem(
            SpoolError.exit_code,
            "spool-full",
            "the spool holds as much as max_spool allows: receiving pauses",
            "Run pgrepl replay, or raise max_spool.",
            (command("replay"),),
        )


def _failure(failure: FailureOverview) -> Problem:
    code = SourceError.exit_code if failure.stage in ("drop", "receive") else DdlError.exit_code
    return Problem(code, f"{failure.stage}-failed", failure.message, failure.hint)


def _lag_problems(positions: Positions | None, max_lag: timedelta | None) -> Iterator[Problem]:
    if positions is None or max_lag is None:
        return
    lag_s, allowed_s = positions.applied.lag_s, max_lag.total_seconds()
    if lag_s > allowed_s:
        yield Problem(
            LagExceeded.exit_code,
            "lag",
            f"it lags {print_duration(lag_s)}, more than {print_duration(allowed_s)}",
        )


def _source(kind: str, message: str, hint: str, *commands: str) -> Problem:
    return Problem(SourceError.exit_code, kind, message, hint, commands)


def _target(kind: str, message: str, hint: str, *commands: str) -> Problem:
    return Problem(TargetError.exit_code, kind, message, hint, commands)


def _never(config: SourceConfig) -> str:
    return "it was never copied" if config.is_database else "nothing of it was ever received"


def _uncopied(kind: str, message: str, config: SourceConfig) -> Problem:
    begin = command("basebackup" if config.is_database else "receive", config.name)
    return _target(kind, message, f"Run: {begin}", begin)


def _broken(kind: str, message: str, name: str) -> Problem:
    """Return a problem of the source's side that only a new copy ends."""
    again = command("basebackup", name, "--restart")
    return _source(kind, message, f"Copy it again: {again}", again)
