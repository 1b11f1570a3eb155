"""Results on standard output: for eyes on a terminal, plain lines elsewhere, JSON when asked."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

__all__ = ["is_terminal", "print_json"]


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:  # noqa: ANN401  anything that JSON can hold
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))
