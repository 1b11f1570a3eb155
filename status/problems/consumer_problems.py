"""What is wrong with those who read the spool besides replay. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.durations import print_duration
from pgrepl.errors import SpoolError
from pgrepl.status.facts import TargetFacts
from pgrepl.status.problems.problem import NAMED, Problem
from pgrepl.store.spool.consumers import ConsumerOverview
from pgrepl.terminal import command

__all__ = ["consumer_problems"]


def consumer_problems(config: SourceConfig, target: TargetFacts) -> Iterator[Problem]:
    """Return who was let go, or is soon, and who does not have everything."""
    for consumer in target.consumers:
        if consumer.lost_at is not None:
            yield _lost(config, consumer)
            continue
        if consumer.is_in_danger(target.clock_at):
            left_s = consumer.seconds_left(target.clock_at) or 0.0
            yield Problem(
                SpoolError.exit_code,
                "consumer-in-danger",
                f'consumer "{consumer.name}" is let go in {print_duration(left_s)} unless it moves:'
                f" it has not since {consumer.moved_at:%Y-%m-%d %H:%M}Z",
                "Start it: pgrepl export, or the stream of Spark, with the options it was begun"
                " with.",
            )
        if consumer.gaps:
            yield Problem(
                SpoolError.exit_code,
                "consumer-incomplete",
                f'consumer "{consumer.name}" does not have everything of {_named(consumer)}:'
                f" rows changed without a change in the spool"
                f" ({next(iter(consumer.gaps.values()))})",
                f"Copy the tables again: {command('resync', config.name, '--where-needed')}; then"
                " start the consumer over with --restart --snapshot.",
            )


def _lost(config: SourceConfig, consumer: ConsumerOverview) -> Problem:
    own = ("--to", consumer.destination, "--consumer", consumer.name)
    return Problem(
        SpoolError.exit_code,
        "consumer-lost",
        f'consumer "{consumer.name}" was let go: it had not moved for'
        f" {print_duration(consumer.keep.total_seconds())}, and what follows {consumer.lsn}"
        " is not in the spool any more",
        f"Use --restart --snapshot, or: {command('export', config.name, *own, '--forget')}",
    )


def _named(consumer: ConsumerOverview) -> str:
    names = [shown_name(*name) for name in consumer.gaps]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
