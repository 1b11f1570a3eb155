"""Results on standard output: for eyes on a terminal, plain lines elsewhere, JSON when asked.

Everything that a command prints goes through here, so that no name gets at a terminal.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from pgrepl.terminal import json_text, printable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "ask",
    "ask_for",
    "is_terminal",
    "make_console",
    "print_columns",
    "print_json",
    "print_json_line",
    "print_line",
    "print_script",
    "printable",
]


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    # A program can be started without any standard output.
    return sys.stdout is not None and sys.stdout.isatty()


def print_line(text: str = "", *, err: bool = False, colour: str | None = None) -> None:
    """Print a text on one line, whatever names are in it."""
    shown = printable(text)
    # A style, even none, ends with a code that sets everything back.
    typer.echo(shown if colour is None else typer.style(shown, fg=colour), err=err)


def print_columns(texts: Iterable[str]) -> None:
    """Print texts on one line, with tabs between them."""
    typer.echo("\t".join(map(printable, texts)))


def ask(question: str) -> None:
    """Go on only when a person says yes."""
    typer.confirm(printable(question), abort=True, err=True)


def ask_for(what: str, default: str | None = None) -> str:
    """Return what a person types."""
    return str(typer.prompt(printable(what), default=default, err=True))


def print_json(value: Any) -> None:  # noqa: ANN401  anything that JSON can hold
    """Print one JSON document."""
    typer.echo(json_text(value, indent=2))


def print_json_line(value: Any, *, err: bool = False) -> None:  # noqa: ANN401  as above
    """Print one JSON document on a line."""
    typer.echo(json_text(value), err=err)


def print_script(text: str) -> None:
    """Print a text for another program: exactly as it is, but for a person who only looks at it."""
    typer.echo(_printable_lines(text) if is_terminal() else text, nl=False)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console for tables and bars."""
    return _console_class()(stderr=stderr)


@functools.cache
def _console_class() -> type[Console]:
    # Rich costs too much for whoever prints no table.
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PrintableConsole(Console):
        """Shows control characters of texts escaped; its own, such as colours, do their work."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """Render a thing, whatever names are in it."""
            for segment in super().render(renderable, options):
                text, style, control = segment
                if control or text.isprintable():
                    yield segment
                else:
                    yield Segment(_printable_lines(text), style)

    return PrintableConsole


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
