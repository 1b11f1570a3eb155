"""``pgrepl parked records`` and ``forget``: records of topics and files that are parked."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JsonOption, SourceArgument
from pgrepl.cli.output.results import ask, print_json, print_line
from pgrepl.errors import DdlError, UsageError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.postgres.connect import Connection
    from pgrepl.store.sources import SourceRow

__all__ = ["forget", "records", "retry_parked_records"]


def records(
    invocation: Invocation,
    source: SourceArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", help="Number of records to show.", min=1)] = 20,
    json_output: JsonOption = False,
) -> None:
    """List records of a source that could not be read or applied: topic, partition, offset, reason.

    Exits 50 when there is one. replication.parked_record has keys and values, if they are known.
    """
    from pgrepl.store.streams import count_parked_records, read_parked_records

    config = invocation.load_config()
    with closing(_open(config)) as connection:
        row = _find(connection, config, source)
        count = count_parked_records(connection).get(row.source_id, 0)
        found = read_parked_records(connection, row.source_id, limit)
    if json_output:
        shown = [
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.record_offset,
                "reason": record.reason,
            }
            for record in found
        ]
        print_json({"source": source, "count": count, "records": shown})
    else:
        for record in found:
            print_line(f"{record.topic} {record.partition} {record.record_offset}: {record.reason}")
        if count > len(found):
            print_line(f"and {count - len(found)} more")
        if not count:
            print_line("no record is parked")
    if count:
        raise typer.Exit(DdlError.exit_code)


def forget(
    invocation: Invocation,
    source: SourceArgument,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Its topic.")] = None,
    partition: Annotated[
        int | None, typer.Argument(metavar="[PARTITION]", help="Its partition.")
    ] = None,
    offset: Annotated[int | None, typer.Argument(metavar="[OFFSET]", help="Its offset.")] = None,
    *,
    all_records: Annotated[
        bool, typer.Option("--all", help="Give up all records of the source that wait.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give up a record that is parked, or all of a source: they are never received."""
    from pgrepl.store.streams import forget_parked_records

    if all_records == (offset is not None):
        raise UsageError("give TOPIC, PARTITION and OFFSET of a record, or --all")
    config = invocation.load_config()
    with closing(_open(config)) as connection:
        row = _find(connection, config, source)
        if not yes:
            ask("Give up what is parked?")
        place = (
            None
            if topic is None or partition is None or offset is None
            else (
                topic,
                partition,
                offset,
            )
        )
        count = forget_parked_records(connection, row.source_id, place)
    if not count and not all_records:
        raise UsageError(f"no such record of source {source} is parked")
    print_line(f"gave up {counted(count, 'record')} of {source}")


def retry_parked_records(
    config: Config, name: str, only: tuple[str, int, int] | None, *, json_output: bool
) -> None:
    """Receive parked records, and say what became of each."""
    from pgrepl.receiver.retry_records import retry_records

    source = config.source(name)
    if source.is_database:
        raise UsageError(f'source "{name}" is a database: it has no records, but tables')
    counts: Counter[str] = Counter()
    shown = []
    for outcome in retry_records(config, source, only):
        counts[outcome.verdict] += 1
        topic, partition = outcome.place
        if json_output:
            shown.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": outcome.offset,
                    "verdict": outcome.verdict,
                    "reason": outcome.reason,
                }
            )
        elif outcome.verdict != "received":
            what = f"{outcome.verdict}: {outcome.reason}"
            print_line(f"{topic} {partition} {outcome.offset}: {what}")
    if only is not None and not counts:
        raise UsageError(f"no such record of source {name} is parked")
    numbers = {verdict: counts[verdict] for verdict in ("received", "superseded", "parked")}
    if json_output:
        print_json({"source": name, **numbers, "records": shown})
    else:
        print_line(", ".join(f"{count} {verdict}" for verdict, count in numbers.items()))
    if counts["parked"]:
        raise typer.Exit(DdlError.exit_code)


def _open(config: Config) -> Connection:
    from pgrepl.postgres.connect import connect
    from pgrepl.store.migrations import migrate

    connection = connect(config.target.endpoint, "parked")
    migrate(connection, config.target.endpoint)
    return connection


def _find(connection: Connection, config: Config, name: str) -> SourceRow:
    from pgrepl.store.sources import find_source

    row = find_source(connection, config.source(name).name)
    if row is None:
        raise UsageError(f'nothing of source "{name}" was ever received')
    return row
