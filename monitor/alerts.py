"""Which alerts have to be delivered: pure judgement over a status and what was said before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from pgrepl.config.alerts import AlertsConfig
from pgrepl.config.naming import shown_name
from pgrepl.durations import print_duration
from pgrepl.status import SourceStatus, Status
from pgrepl.store.monitoring.alerts import AlertRow
from pgrepl.terminal import command

__all__ = ["KINDS", "Alert", "News", "find_alerts", "find_news"]

#: What can be wrong, and in which words its end is told.
KINDS = {
    "slot": "the slot is safe again",
    "parked": "the table is not parked any more",
    "ddl": "no DDL waits any more",
    "lag": "the lag is below the limit again",
    "consumer": "the consumer moved again, or was forgotten",
    "receiver": "a receiver is connected again",
}

_NO_TIME = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is wrong now."""

    source: str
    kind: str
    subject: str = ""
    message: str
    #: What to type.
    commands: tuple[str, ...] = ()
    #: How long it has to last until it is delivered.
    hold: timedelta = _NO_TIME

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells alerts apart."""
        return self.source, self.kind, self.subject


@dataclass(frozen=True, slots=True)
class News:
    """What to do about a row: tell of it and keep it, keep it, or forget it."""

    action: Literal["keep", "begin", "end", "forget"]
    row: AlertRow
    commands: tuple[str, ...] = ()


def find_alerts(status: Status, limits: AlertsConfig) -> Iterator[Alert]:
    """Return what is wrong."""
    for source in status.sources:
        yield from _of_source(source, limits)


def find_news(
    status: Status, limits: AlertsConfig, known: Sequence[AlertRow], now: datetime
) -> Iterator[News]:
    """Compare what is wrong with what was told before."""
    found = {alert.key: alert for alert in find_alerts(status, limits)}
    before = {row.key: row for row in known}
    for key, alert in found.items():
        row = before.get(key)
        if row is None:
            row = AlertRow(*key, since=now, message=alert.message)
            is_new = True
        else:
            is_new = False
            row = replace(row, message=alert.message)
        if row.told_at is None and now - row.since >= alert.hold:
            yield News("begin", row, alert.commands)
        elif is_new:
            yield News("keep", row)
    unknown = _unknown(status)
    for key, row in before.items():
        if key in found or (row.source, row.kind) in unknown:
            continue
        if row.told_at is None:
            yield News("forget", row)
        else:
            yield News("end", replace(row, message=KINDS.get(row.kind, "it is over")))


def _unknown(status: Status) -> set[tuple[str, str]]:
    """Return what cannot be judged: a source that does not answer tells nothing of its slot."""
    return {(source.name, "slot") for source in status.sources if source.source is None}


def _of_source(source: SourceStatus, limits: AlertsConfig) -> Iterator[Alert]:
    yield from _slot(source, limits)
    target, positions = source.target, source.positions
    if target is None:
        return
    for table in target.tables:
        if table.parked_at is not None and table.parked_kind not in (
            "paused",
            "resync",
            "locked",
        ):
            yield Alert(
                source=source.name,
                kind="parked",
                subject=shown_name(table.schema_name, table.table_name),
                message=f"table {table.name} is parked: {table.parked_reason}",
                commands=(
                    command("parked", "show", source.name, table.name),
                    command("parked", "retry", source.name, table.name),
                ),
            )
    if target.pending_ddl_count:
        yield Alert(
            source=source.name,
            kind="ddl",
            message="captured DDL waits for a person",
            commands=(command("ddl", "pending", source.name),),
        )
    for consumer in target.consumers:
        if consumer.lost_at is not None or consumer.is_in_danger(target.clock_at):
            what = "was let go" if consumer.lost_at is not None else "is let go soon"
            yield Alert(
                source=source.name,
                kind="consumer",
                subject=consumer.name,
                message=f"consumer {consumer.name} {what}: it did not move for long",
                commands=(command("status", source.name),),
            )
    limit_s = limits.lag.total_seconds()
    # Who paused a source knows that it lags.
    if positions is not None and target.pause is None and positions.applied.lag_s > limit_s:
        yield Alert(
            source=source.name,
            kind="lag",
            message=f"its tables lag more than {print_duration(limit_s)}",
            commands=(command("status", source.name),),
        )
    if source.state in ("unreachable", "not receiving"):
        why = "the source does not answer" if source.source is None else "no receiver is connected"
        yield Alert(
            source=source.name,
            kind="receiver",
            message=f"{why} for {print_duration(limits.receiver.total_seconds())} or longer",
            commands=(command("receive", source.name),),
            hold=limits.receiver,
        )


def _slot(source: SourceStatus, limits: AlertsConfig) -> Iterator[Alert]:
    facts, left_s = source.source, source.seconds_to_loss
    if facts is None or facts.plugin is None:
        return
    if facts.wal_status in ("unreserved", "lost"):
        message = f"the WAL of its slot is {facts.wal_status}"
    elif left_s is not None and left_s < limits.slot.total_seconds():
        limit = print_duration(limits.slot.total_seconds())
        message = f"its slot lasts less than {limit} without a receiver, at the present rate of WAL"
    else:
        return
    yield Alert(
        source=source.name,
        kind="slot",
        message=message,
        commands=(command("status", source.name),),
    )
