"""Arguments and options that several commands have, with one meaning each."""

from __future__ import annotations

from typing import Annotated

import typer

from pgrepl.cli.invocation import complete_source

__all__ = ["JobsOption", "JsonOption", "SourceArgument"]

SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help="Source.", autocompletion=complete_source)
]
JobsOption = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Number of parallel jobs; default: one per core."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
