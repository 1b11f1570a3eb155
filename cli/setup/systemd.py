"""``pgrepl systemd``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.output.results import print_json, print_line, print_script
from pgrepl.errors import ConfigError, UsageError

__all__ = ["systemd"]


def systemd(
    invocation: Invocation,
    *,
    cron: Annotated[
        bool, typer.Option("--cron", help="Print a crontab instead of unit files.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the files there instead of printing them."),
    ] = None,
    user: Annotated[str, typer.Option(help="The user that pgrepl runs as.")] = "pgrepl",
    group: Annotated[
        str | None, typer.Option(help="Its group; default: the name of the user.")
    ] = None,
    program: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The program; default: the one that runs.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON: name to text.")] = False,
) -> None:
    """Print unit files, or a crontab, that run pgrepl for this configuration.

    One template unit receives, one instance per source; one unit replays; pgrepl.target starts and
    stops them together. Another template exports: PGREPL_EXPORT in /etc/pgrepl/export/INSTANCE is
    what stands after "pgrepl export". Nothing is installed.
    """
    from pgrepl.systemd import Installation, make_crontab, make_units

    config = invocation.load_config()
    installation = Installation(
        program=(program or Path(sys.argv[0])).absolute(),
        config=config.path.absolute(),
        user=user,
        group=group or user,
        sources=list(config.sources),
    )
    if any(
        not char.isprintable()
        for path in (installation.program, installation.config)
        for char in str(path)
    ):
        raise UsageError("the path of the program or of the configuration cannot be printed")
    files = {"pgrepl.cron": make_crontab(installation)} if cron else make_units(installation)
    written = _write(files, output) if output is not None else []
    if json_output:
        print_json(files)
    elif output is None:
        _print(files)
    for path in written:
        print_line(f"written: {path}", err=json_output)


def _print(files: Mapping[str, str]) -> None:
    for number, (name, text) in enumerate(files.items()):
        if len(files) > 1:
            print_script(f"{chr(10) if number else ''}# --- {name}\n")
        print_script(text)


def _write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files, all or none; what pgrepl did not make is not written over."""
    from pgrepl.systemd import MADE_BY

    if not folder.is_dir():
        raise UsageError(f"--output: {folder} is not a folder", hint="Make it first.")
    mark = MADE_BY.partition(".")[0].encode()
    for name in files:
        path = folder / name
        if path.exists() and not path.read_bytes().startswith(mark):
            raise ConfigError(
                f"{path} exists, and pgrepl did not make it",
                hint="Move it away, or write into another folder.",
            )
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]
