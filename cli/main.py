"""The program ``pgrepl``.

Commands import what they need when they run: ``pgrepl --help`` must not wait for Spark.
"""

from __future__ import annotations

import signal
from typing import Annotated, Literal

import typer

from pgrepl import __version__
from pgrepl.cli import basebackup, config, demo, doctor, receive
from pgrepl.cli.invocation import register
from pgrepl.cli.output import is_terminal

__all__ = ["app", "main"]

# Boxes and colours are for terminals; a pipe gets plain text.
_MARKUP: Literal["rich"] | None = "rich" if is_terminal() else None

app = typer.Typer(
    name="pgrepl",
    help="Replicate many PostgreSQL databases into one, exactly and live.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgrepl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


register(app, demo.demo, example="pgrepl demo")
register(app, doctor.doctor, example="pgrepl doctor shop --sql | psql -U postgres -d postgres")
register(app, basebackup.basebackup, example="pgrepl basebackup shop --jobs 4")
register(app, receive.receive, example="pgrepl receive shop")

_config_app = typer.Typer(
    help="Check the configuration, or show it as pgrepl reads it.",
    no_args_is_help=True,
    rich_markup_mode=_MARKUP,
)
app.add_typer(_config_app, name="config")
register(_config_app, config.check, example="pgrepl config check --config ./pgrepl.toml")
register(_config_app, config.show, example="pgrepl config show --json")


def main() -> None:
    """Run the program; SIGTERM ends it as Ctrl-C does, unless the command knows better."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
