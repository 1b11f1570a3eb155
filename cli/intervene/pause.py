"""``pgrepl pause`` and ``pgrepl resume``: replay leaves a source, or tables of it, alone."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JsonOption, SourceArgument
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.config.model import Config
    from pgrepl.config.naming import TableSelection
    from pgrepl.postgres.connect import Connection
    from pgrepl.store.parked import ParkedTable
    from pgrepl.store.sources import SourceRow

__all__ = ["pause", "resume"]


def pause(
    invocation: Invocation,
    source: SourceArgument,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Tables as SCHEMA.TABLE; patterns may have *."),
    ] = None,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, for whoever looks at pgrepl status.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Apply nothing to a source's tables, or to some of them, until pgrepl resume.

    Takes effect after the batch in hand. Receiving goes on: changes wait in the spool on the
    target, and the source keeps no WAL for it.
    """
    from pgrepl.config.naming import shown_name
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.store.pauses import add_pause_history, pause_source, pause_table, select_tables

    config = invocation.load_config()
    who = _user()
    with (
        closing(_open(config)) as connection,
        translated(config.target.endpoint, "cannot pause"),
        connection.transaction(),
    ):
        row = _find(config, connection, source)
        if not tables:
            is_new = pause_source(connection, row.source_id, who, reason)
            if is_new:
                add_pause_history(connection, source, None, "pause", who=who, reason=reason)
            _report("paused", source, [] if not is_new else [source], json_output=json_output)
            return
        names = select_tables(connection, row.source_id, _selection(tables))
        if not names:
            raise UsageError(
                f'no table of source "{source}" matches: {", ".join(tables)}',
                hint="Name tables as on the source: SCHEMA.TABLE.",
            )
        text = f"paused by {who}" + (f" ({reason})" if reason else "")
        paused = [name for name in names if pause_table(connection, row.source_id, name, text)]
        for name in paused:
            add_pause_history(connection, source, name, "pause", who=who, reason=reason)
    _report("paused", source, [shown_name(*name) for name in paused], json_output=json_output)


def resume(
    invocation: Invocation,
    source: SourceArgument,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Tables as SCHEMA.TABLE; without one the source and all its paused tables.",
        ),
    ] = None,
    *,
    json_output: JsonOption = False,
) -> None:
    """Go on with what was paused: what waited is applied, then what follows.

    What waits for a table is applied here, all of it or nothing; what waits for a source is
    applied by pgrepl replay. Exits 50 when a table's changes cannot be applied: it stays parked.
    """
    from pgrepl.config.naming import shown_name
    from pgrepl.ddl_capture import Applier
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.replayer.parked.work_off import retry_table
    from pgrepl.replayer.session import open_session
    from pgrepl.replayer.settings import ReplaySettings
    from pgrepl.store.pauses import add_pause_history, resume_source

    config = invocation.load_config()
    who = _user()
    done = []
    settings = ReplaySettings()
    with (
        closing(_open(config)) as connection,
        translated(config.target.endpoint, "cannot resume"),
    ):
        row = _find(config, connection, source)
        paused = _paused_tables(connection, row, tables)
        for table in paused:
            with closing(open_session(config.target.endpoint, settings)) as session:
                # A kill after it leaves nothing that is paused, and nobody who could be named.
                note = partial(add_pause_history, session, source, table.name, "resume", who=who)
                retry_table(session, config, table, Applier(config), settings, note=note)
            done.append(shown_name(*table.name))
        if not tables:
            with connection.transaction():
                is_resumed = resume_source(connection, row.source_id)
                if is_resumed:
                    add_pause_history(connection, source, None, "resume", who=who)
            done += [source] if is_resumed else []
    _report("resumed", source, done, json_output=json_output)


def _paused_tables(
    connection: Connection, source: SourceRow, patterns: Sequence[str] | None
) -> list[ParkedTable]:
    from pgrepl.store.parked import list_parked
    from pgrepl.store.pauses import select_tables

    paused = [table for table in list_parked(connection, source.name) if table.kind == "paused"]
    if not patterns:
        return paused
    selected = select_tables(connection, source.source_id, _selection(patterns))
    chosen = [table for table in paused if table.name in selected]
    if not chosen:
        raise UsageError(
            f'no paused table of source "{source.name}" matches: {", ".join(patterns)}',
            hint="See what is paused: pgrepl status",
        )
    return chosen


def _selection(patterns: Sequence[str]) -> TableSelection:
    from pgrepl.config.naming import TableSelection

    try:
        return TableSelection.of(patterns)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def _find(config: Config, connection: Connection, source: str) -> SourceRow:
    from pgrepl.store.sources import find_source
    from pgrepl.terminal import command

    row = find_source(connection, config.source(source).name)
    if row is None:
        raise UsageError(
            f'source "{source}" was never copied',
            hint=f"Run: {command('basebackup', source)}",
        )
    return row


def _open(config: Config) -> Connection:
    from pgrepl.postgres.connect import connect
    from pgrepl.store.migrations import migrate

    connection = connect(config.target.endpoint, "pause")
    migrate(connection, config.target.endpoint)
    return connection


def _user() -> str:
    """Return who runs this, as user@host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A user that no passwd entry names, as in a container.
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def _report(word: str, source: str, names: Sequence[str], *, json_output: bool) -> None:
    if json_output:
        print_json({"source": source, word: list(names)})
    elif names:
        print_line(f"{word}: {', '.join(names)}")
    else:
        print_line(f"nothing of source {source} was to be {word}")
