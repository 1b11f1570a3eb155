"""What is wrong with a command line, told as every other error is when a program reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.errors import UsageError
from pgrepl.log import configure_logging

__all__ = ["run_for_program"]

#: What the parser raises: typer has it of its own, or from click.
_REFUSED: Any = next(kind for kind in typer.BadParameter.mro() if kind.__name__ == "ClickException")


def run_for_program(app: typer.Typer, arguments: Sequence[str]) -> int | None:
    """Run a command whose errors a program reads, and return its exit code; None: a person does."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    options = arguments[:end]
    is_log = _log_format(options) == "json"
    if not is_log and "--json" not in options:
        return None
    try:
        return int(app(list(arguments), standalone_mode=False) or 0)
    except typer.Abort:
        return 1
    except _REFUSED as exc:
        if is_log:
            configure_logging("json", is_verbose=False)
        invocation = Invocation(None, "json" if is_log else "text", is_json=True)
        try:
            invocation.fail(
                UsageError(exc.format_message(), hint="Add --help to see what there is.")
            )
        except typer.Exit as end_of_it:
            return int(end_of_it.exit_code)


def _log_format(options: Sequence[str]) -> str | None:
    for option, value in pairwise([*options, ""]):
        if option == "--log-format":
            return value
        if option.startswith("--log-format="):
            return option.partition("=")[2]
    return os.environ.get("PGREPL_LOG_FORMAT")
