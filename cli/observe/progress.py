"""``pgrepl progress``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.output.results import print_json, print_json_line, print_line
from pgrepl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.progress import Bindings
    from pgrepl.store.progress.bindings import Binding

__all__ = ["progress"]

#: Number of bindings shown by default.
_SHOWN = 10
#: Between two looks with --follow.
_FOLLOW_S = 0.5


def progress(
    invocation: Invocation,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Source to ask for.", autocompletion=complete_source),
    ],
    *,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="Which LSN the target showed then: ISO 8601, UTC without an offset.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print each new binding, until Ctrl-C.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --follow, a line each time.")
    ] = False,
) -> None:
    """Show which source LSN the target showed at which time.

    Each line binds a time of the target to an LSN: from then on every change before that LSN was
    in the tables, until the next line. Exits 30 when nothing was published yet, and 2 when nothing
    is known of the time asked for.
    """
    from pgrepl.progress import read_bindings

    if as_of is not None and follow:
        raise UsageError("--as-of and --follow exclude each other")
    at = None if as_of is None else _parse_time(as_of)
    config = invocation.load_config()
    with read_bindings(config.target.endpoint, config.source(source).name) as bindings:
        if at is not None:
            _print([bindings.as_of(at)], bindings, source, is_json=json_output)
        elif follow:
            _follow(bindings, source, is_json=json_output)
        else:
            _print(bindings.newest(_SHOWN), bindings, source, is_json=json_output)


def _follow(bindings: Bindings, source: str, *, is_json: bool) -> None:
    found = bindings.newest(1)
    last = found[-1]
    try:
        while True:
            for last in found:
                if is_json:
                    print_json_line(_as_json(last, bindings, source))
                else:
                    _print_lines(last, bindings)
            time.sleep(_FOLLOW_S)
            found = bindings.since(last.at)
    except KeyboardInterrupt:
        return


def _print(found: Sequence[Binding], bindings: Bindings, source: str, *, is_json: bool) -> None:
    if is_json:
        print_json([_as_json(binding, bindings, source) for binding in found])
    else:
        for binding in found:
            _print_lines(binding, bindings)


def _print_lines(binding: Binding, bindings: Bindings) -> None:
    print_line(f"{binding.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {binding.lsn}")
    for offset in bindings.offsets(binding):
        lsn = "" if offset.source_lsn is None else f" source {offset.source_lsn}"
        print_line(f"  {offset.topic} {offset.partition} {offset.next_offset}{lsn}")


def _as_json(binding: Binding, bindings: Bindings, source: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "source": source,
        "at": binding.at,
        "lsn": binding.lsn,
    }
    offsets = [
        {
            "topic": offset.topic,
            "partition": offset.partition,
            "offset": offset.next_offset,
            "source_lsn": None if offset.source_lsn is None else str(offset.source_lsn),
        }
        for offset in bindings.offsets(binding)
    ]
    return {**shown, "offsets": offsets} if offsets else shown


def _parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f'--as-of: "{text}" is no time such as "2026-03-01 12:00:00+01:00"'
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
