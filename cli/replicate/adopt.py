"""``pgrepl adopt``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.options import JsonOption
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import DdlError, PgreplError
from pgrepl.terminal import command, counted

if TYPE_CHECKING:
    from pgrepl.receiver import Adoption

__all__ = ["adopt"]

logger = logging.getLogger("pgrepl.cli")


def adopt(
    invocation: Invocation,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="Sources; without one all databases of the configuration.",
            autocompletion=complete_source,
        ),
    ] = None,
    *,
    may_mark_all: Annotated[
        bool,
        typer.Option(
            "--resync",
            help="Where nothing shows that all was received, mark all tables to be copied again.",
        ),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Go on with servers that pg_upgrade made of the target or of sources, without a new copy.

    Makes replication origins again that the target lost. Takes a source on that is another server
    now, once it is shown that nothing was written there that was not received. Does nothing where
    no server changed. Exits 20 when something may be missing, 50 when tables wait for a resync.
    """
    from pgrepl.receiver import adopt as adopt_source

    config = invocation.load_config()
    chosen = [config.source(name) for name in sources] if sources else config.sources.values()
    done: list[Adoption] = []
    failed: list[PgreplError] = []
    for source in chosen:
        if not source.is_database:
            continue
        try:
            done.append(adopt_source(config, source, may_mark_all=may_mark_all))
        except PgreplError as exc:
            if len(chosen) > 1:
                logger.error("%s: %s", source.name, exc.message)  # noqa: TRY400  it is expected
            failed.append(exc)
        else:
            if not json_output:
                print_line(f"{source.name}: {_describe(done[-1])}")
    if json_output:
        print_json([_document(adoption) for adoption in done])
    if failed:
        raise failed[0]
    marked = [adoption.source for adoption in done if adoption.marked]
    if marked:
        raise DdlError(
            f"{counted(sum(len(adoption.marked) for adoption in done), 'table')} must be copied"
            " again",
            hint=f"See {command('status', *marked)}, and run:"
            f" {'; '.join(command('resync', name, '--where-needed') for name in marked)}",
        )


def _describe(adoption: Adoption) -> str:
    told = []
    if adoption.origin is not None:
        told.append(f"replication origin made again at {adoption.origin}")
    if adoption.position is not None:
        told.append(f"goes on with the upgraded server from {adoption.position}")
    if adoption.marked:
        told.append(f"{counted(len(adoption.marked), 'table')} marked for a resync")
    return "; ".join(told) or "nothing to do"


def _document(adoption: Adoption) -> dict[str, object]:
    return {
        "source": adoption.source,
        "origin_lsn": adoption.origin,
        "position": adoption.position,
        "resync_tables": [".".join(name) for name in adoption.marked],
    }
