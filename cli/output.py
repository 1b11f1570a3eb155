"""Results on standard output: for eyes on a terminal, plain lines elsewhere, JSON when asked."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

__all__ = ["is_terminal", "print_json", "printable"]


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    # A program can be started without any standard output.
    return sys.stdout is not None and sys.stdout.isatty()


def printable(text: str) -> str:
    """Keep a text on its line, and a terminal in its senses, whatever names are in the text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: Any) -> None:  # noqa: ANN401  anything that JSON can hold
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))
