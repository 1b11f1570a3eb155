"""``pgrepl parked``: tables whose changes could not be applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JsonOption, SourceArgument
from pgrepl.cli.output.results import ask, print_json, print_line
from pgrepl.errors import DdlError, UsageError
from pgrepl.terminal import counted, json_text, print_time

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.lsn import Lsn
    from pgrepl.postgres.connect import Connection
    from pgrepl.store.parked import ParkedTable

__all__ = ["list_tables", "retry", "show", "skip"]

#: What changes are called.
_ACTIONS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}

_READING = "cannot read what waits"

_Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table as SCHEMA.TABLE on the source.")
]


def list_tables(invocation: Invocation, *, json_output: JsonOption = False) -> None:
    """List the parked tables, why they are parked, and how much waits.

    Exits 50 when a table is parked, unless a person paused it or it waits for a lock.
    """
    from pgrepl.config.naming import shown_name
    from pgrepl.store.parked import list_parked

    config = invocation.load_config()
    with _open(config) as connection:
        tables = list_parked(connection)
    if json_output:
        print_json([_as_json(table) for table in tables])
    else:
        for table in tables:
            print_line(
                f"{table.source} {shown_name(*table.name)}: {table.reason};"
                f" {counted(table.change_count, 'change')} waiting"
                f" since {table.parked_at:%Y-%m-%d %H:%M:%S%z}"
            )
        if not tables:
            print_line("no table is parked")
    if any(table.kind not in ("paused", "locked") for table in tables):
        raise typer.Exit(DdlError.exit_code)


def show(
    invocation: Invocation,
    source: SourceArgument,
    table: _Table,
    *,
    limit: Annotated[int, typer.Option("--limit", help="Number of changes to show.", min=1)] = 20,
    show_rows: Annotated[
        bool, typer.Option("--show-rows", help="Show values too, not only names of columns.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Show the changes that wait for a table, in order."""
    from pgrepl.replayer.parked.parked_tables import find_parked, read_changes

    config = invocation.load_config()
    with _open(config) as connection:
        parked = find_parked(connection, config.source(source).name, table)
        changes = list(islice(read_changes(connection, parked), limit))
    shown = [
        {
            "commit_lsn": change.commit_lsn,
            "commit_at": change.commit_at,
            "action": change.action,
            "row": change.row if show_rows else list(change.row),
        }
        for change in changes
    ]
    if json_output:
        print_json({**_as_json(parked), "changes": shown})
        return
    print_line(f"{parked.reason}; {counted(parked.change_count, 'change')} waiting")
    for change in changes:
        what = _ACTIONS.get(change.action, change.action)
        row = json_text(change.row) if show_rows else ", ".join(change.row)
        print_line(f"{change.commit_lsn} {print_time(change.commit_at)} {what}: {row}")


def retry(
    invocation: Invocation,
    source: SourceArgument,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="The table as SCHEMA.TABLE on the source."),
    ] = None,
    *,
    all_records: Annotated[
        bool, typer.Option("--records", help="Receive parked records of the source instead.")
    ] = False,
    record: Annotated[
        tuple[str, int, int] | None,
        typer.Option(
            "--record", metavar="TOPIC PARTITION OFFSET", help="Receive one parked record instead."
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Apply what waits for a table, all of it or nothing, and let the table go on.

    With --records, receive records that were parked and can be read by now; one is not received
    if a later one of its key was. Tables: works while pgrepl replay runs. Records: pgrepl receive
    of the source must not run. Exits 50 when something still waits.
    """
    from pgrepl.cli.intervene.parked_records import retry_parked_records
    from pgrepl.ddl_capture import Applier
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.replayer.parked.parked_tables import find_parked
    from pgrepl.replayer.parked.work_off import retry_table
    from pgrepl.replayer.session import open_session
    from pgrepl.replayer.settings import ReplaySettings

    if (table is not None) + all_records + (record is not None) != 1:
        raise UsageError("give TABLE, --records, or --record with TOPIC, PARTITION and OFFSET")
    config = invocation.load_config()
    if table is None:
        retry_parked_records(config, source, record, json_output=json_output)
        return
    settings = ReplaySettings()
    endpoint = config.target.endpoint
    with (
        closing(open_session(endpoint, settings)) as connection,
        translated(endpoint, _READING),
    ):
        parked = find_parked(connection, config.source(source).name, table)
        count = retry_table(connection, config, parked, Applier(config), settings)
    _report("applied", parked, count, json_output=json_output)


def skip(
    invocation: Invocation,
    source: SourceArgument,
    table: _Table,
    *,
    through: Annotated[
        str | None,
        typer.Option(
            "--through",
            metavar="LSN",
            help="Give up only transactions that committed up to here; see pgrepl parked show.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Give up changes that wait for a table; the rest waits on, for pgrepl parked retry.

    The table then differs from its source and is marked as needing a resync.
    """
    from pgrepl.replayer.parked.parked_tables import find_parked, skip_changes

    config = invocation.load_config()
    position = _parse_lsn(through)
    with _open(config) as connection:
        parked = find_parked(connection, config.source(source).name, table)
        if not yes:
            ask(f"Give up changes of {table}?")
        count = skip_changes(connection, config.target.endpoint, parked, position)
    _report("gave up", parked, count, json_output=json_output)


@contextmanager
def _open(config: Config) -> Iterator[Connection]:
    from pgrepl.postgres.connect import connect
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.store.migrations import migrate

    endpoint = config.target.endpoint
    with closing(connect(endpoint, "parked")) as connection, translated(endpoint, _READING):
        migrate(connection, endpoint)
        yield connection


def _parse_lsn(text: str | None) -> Lsn | None:
    from pgrepl.lsn import Lsn

    try:
        return None if text is None else Lsn.parse(text)
    except ValueError as exc:
        raise UsageError(f"--through: {exc}") from exc


def _report(done: str, table: ParkedTable, count: int, *, json_output: bool) -> None:
    from pgrepl.config.naming import shown_name

    if json_output:
        print_json({"source": table.source, "table": ".".join(table.name), "change_count": count})
    else:
        print_line(f"{done} {counted(count, 'change')} of {table.source} {shown_name(*table.name)}")


def _as_json(table: ParkedTable) -> dict[str, object]:
    return {
        "source": table.source,
        "schema": table.schema,
        "table": table.table,
        "parked_at": table.parked_at,
        "sqlstate": table.sqlstate,
        "reason": table.reason,
        "retry_count": table.retry_count,
        "change_count": table.change_count,
        "first_lsn": table.first_lsn,
        "last_lsn": table.last_lsn,
    }
