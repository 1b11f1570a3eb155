"""The program ``pgrepl``.

Commands import what they need when they run: ``pgrepl --help`` must not wait for Spark.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Literal

import typer

from pgrepl import __version__
from pgrepl.cli.intervene import ddl, parked, parked_records, pause
from pgrepl.cli.invocation import register
from pgrepl.cli.leading_options import move_leading_options
from pgrepl.cli.observe import monitor, progress, status, verify
from pgrepl.cli.output.results import is_terminal, print_line
from pgrepl.cli.refusals import run_for_program
from pgrepl.cli.replicate import adopt, basebackup, drop, export, receive, replay, resync
from pgrepl.cli.setup import config, demo, doctor, init, systemd
from pgrepl.native import describe

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
        print_line(f"pgrepl {__version__} (core: {describe()})")
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


def _group(name: str, purpose: str) -> typer.Typer:
    """Add a command that has commands of its own."""
    group = typer.Typer(help=purpose, no_args_is_help=True, rich_markup_mode=_MARKUP)
    app.add_typer(group, name=name)
    return group


register(app, demo.demo, example="pgrepl demo")
register(
    app,
    init.init,
    example="pgrepl init --target 'host=warehouse.internal dbname=warehouse user=pgrepl'"
    " --source 'shop=host=shop.internal dbname=shop user=pgrepl'",
)
register(app, doctor.doctor, example="pgrepl doctor shop --sql | psql -U postgres -d postgres")
register(app, basebackup.basebackup, example="pgrepl basebackup shop --jobs 4")
register(app, receive.receive, example="pgrepl receive shop")
register(app, replay.replay, example="pgrepl replay --once")
register(app, status.status, example="pgrepl status --max-lag 60s")
register(app, monitor.monitor, example="pgrepl monitor --listen 127.0.0.1:9815")
register(app, progress.progress, example="pgrepl progress shop --as-of '2026-03-01 12:00'")
register(app, verify.verify, example="pgrepl verify shop public.orders")
register(app, resync.resync, example="pgrepl resync shop public.orders")
register(app, pause.pause, example="pgrepl pause shop public.orders --reason 'month-end report'")
register(app, pause.resume, example="pgrepl resume shop")
register(
    app,
    export.export,
    example="pgrepl export shop --to /srv/changes --snapshot --envelope debezium",
)
register(app, adopt.adopt, example="pgrepl adopt shop")
register(app, drop.drop, example="pgrepl drop shop --yes")
register(app, systemd.systemd, example="pgrepl systemd --output /etc/systemd/system")

_parked_app = _group("parked", "Work off tables whose changes could not be applied.")
register(_parked_app, parked.list_tables, name="list", example="pgrepl parked list")
register(_parked_app, parked.show, example="pgrepl parked show shop public.orders")
register(_parked_app, parked.retry, example="pgrepl parked retry shop public.orders")
register(_parked_app, parked.skip, example="pgrepl parked skip shop public.orders --through 0/1A2B")
register(_parked_app, parked_records.records, example="pgrepl parked records feed")
register(
    _parked_app, parked_records.forget, example="pgrepl parked forget feed srv.public.orders 0 17"
)

_ddl_app = _group("ddl", "Capture DDL on sources, and settle DDL that stopped one.")
register(_ddl_app, ddl.install, example="pgrepl ddl install shop")
register(_ddl_app, ddl.uninstall, example="pgrepl ddl uninstall shop")
register(_ddl_app, ddl.status, example="pgrepl ddl status shop")
register(_ddl_app, ddl.enable, example="pgrepl ddl enable shop")
register(_ddl_app, ddl.disable, example="pgrepl ddl disable shop")
register(_ddl_app, ddl.pending, example="pgrepl ddl pending --json")
register(_ddl_app, ddl.retry, example="pgrepl ddl retry shop")
register(_ddl_app, ddl.edit, example="pgrepl ddl edit shop --file fixed.sql")
register(_ddl_app, ddl.skip, example="pgrepl ddl skip shop")

_config_app = _group("config", "Check the configuration, or show it as pgrepl reads it.")
register(_config_app, config.check, example="pgrepl config check --config ./pgrepl.toml")
register(_config_app, config.show, example="pgrepl config show --json")


def main() -> None:
    """Run the program; SIGTERM ends it as Ctrl-C does, unless the command knows better."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = move_leading_options(sys.argv[1:])
    code = run_for_program(app, arguments)
    if code is not None:
        sys.exit(code)
    app(arguments)
