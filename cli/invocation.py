"""What all commands share: their common options, and what happens to an error.

A command is a function whose first parameter is an ``Invocation``. ``register`` gives it the
common options in that place, so that each command has them and none repeats them.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast, get_type_hints

import typer

from pgrepl.cli.output.results import print_json_line, print_line
from pgrepl.cli.system_refusal import refusal_of
from pgrepl.errors import Interrupted, PgreplError
from pgrepl.log import LogFormat, configure_logging

if TYPE_CHECKING:
    from pgrepl.config.model import Config

__all__ = ["Invocation", "complete_source", "register"]

logger = logging.getLogger("pgrepl.cli")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="PGREPL_CONFIG",
        metavar="FILE",
        help="Configuration file; without it the usual places are looked up.",
    ),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar="PGREPL_LOG_FORMAT", help="Log for people or machines."),
]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The common options of one call."""

    config_path: Path | None
    log_format: LogFormat
    #: Whether a program reads the result, and so the error.
    is_json: bool = False

    def load_config(self) -> Config:
        """Find and read the configuration."""
        from pgrepl.config.file import find_config, load_config

        return load_config(find_config(self.config_path, home=os.environ.get("HOME")))

    def fail(self, error: PgreplError) -> NoReturn:
        """Report an error and exit with its code."""
        about = {"hint": error.hint, "exit_code": error.exit_code}
        if self.log_format == "json":
            logger.error(error.message, extra=about)
        elif self.is_json:
            print_json_line({"error": error.message, **about}, err=True)
        else:
            first, *others = error.lines or (error.message,)
            print_line(f"error: {first}", err=True, colour="red")
            for line in others:
                print_line(line, err=True)
            if error.hint:
                print_line(f"hint: {error.hint}", err=True)
        raise typer.Exit(error.exit_code)


def register(
    app: typer.Typer, command: Callable[..., None], *, example: str, name: str | None = None
) -> None:
    """Add a command to the app, with the common options and an example in its help."""

    @functools.wraps(command)
    def run(
        *arguments: Any,  # noqa: ANN401  whatever the command takes
        config: Path | None,
        verbose: bool,
        debug: bool,
        log_format: LogFormat,
        **options: Any,  # noqa: ANN401
    ) -> None:
        configure_logging(log_format, is_verbose=verbose)
        invocation = Invocation(config, log_format, is_json=options.get("json_output", False))
        try:
            command(invocation, *arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # typer ends quietly when the reader has ended
        except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001  all of them are reported
            if debug:
                for line in traceback.format_exc().splitlines():
                    print_line(line, err=True)
            invocation.fail(_as_error(exc))

    _merge_signature(run, command)
    app.command(name or command.__name__, epilog=f"Example: {example}")(run)


def _as_error(exc: BaseException) -> PgreplError:
    """Say of what was not foreseen only its kind: its text may hold a row's value."""
    if isinstance(exc, PgreplError):
        return exc
    if isinstance(exc, KeyboardInterrupt):
        return Interrupted("interrupted")
    if isinstance(exc, OSError | ImportError):
        return refusal_of(exc)
    if (told := _as_database_error(exc)) is not None:
        return told
    return PgreplError(
        f"unforeseen {type(exc).__name__}; this is a bug in pgrepl",
        hint="Run the command again with --debug and report what it prints.",
    )


def _as_database_error(exc: BaseException) -> PgreplError | None:
    """Return what a server or the way to it did in a moment that nothing else foresaw."""
    # Only what has spoken to one can have its errors.
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    from pgrepl.postgres.sqlstate import translate_untold

    return translate_untold(exc) if isinstance(exc, psycopg.Error) else None


def _merge_signature(run: Callable[..., None], command: Callable[..., None]) -> None:
    """Show typer the command's parameters, with the common options for its first one."""
    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[1:]
    common = (
        ("config", ConfigOption, None),
        ("verbose", VerboseOption, False),
        ("debug", DebugOption, False),
        ("log_format", LogFormatOption, "text"),
    )
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    parameters += [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for key, hint, default in common
    ]
    shown = cast("Any", run)
    shown.__signature__ = inspect.Signature(parameters)
    shown.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def complete_source(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a source's name from the configuration; without one there is nothing to offer."""
    from pgrepl.config.file import find_config, load_config

    given = context.params.get("config") or os.environ.get("PGREPL_CONFIG")
    try:
        path = find_config(Path(given) if given else None, home=os.environ.get("HOME"))
        return [name for name in load_config(path).sources if name.startswith(incomplete)]
    except PgreplError:
        return []
