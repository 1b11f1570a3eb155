"""Write docs/commands.md from the commands themselves; a test holds the two equal.

python scripts/document_commands.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from pgrepl.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"

_HEAD = """\
# Commands

Every command with its arguments and options, as `--help` prints them. This page is made by
`make docs`; a test holds it equal to the program.

Every command also has:

| option | meaning |
|---|---|
"""
_COMMON = ("config", "verbose", "debug", "log_format", "help")


def render() -> str:
    """Return the page."""
    commands = list(_commands(typer.main.get_command(app), ()))
    _, first = commands[0]
    common = {p.name: p for p in first.params}
    rows = [_row(common[name]) for name in _COMMON if name in common]
    return _HEAD + "\n".join(rows) + "\n" + "".join(_section(*command) for command in commands)


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> str:  # noqa: ANN401
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name not in _COMMON]
    usage = " ".join(["pgrepl", *path, *(_metavar(p) for p in arguments)])
    text = f"\n## `{usage}`\n\n{command.help.strip()}\n"
    if arguments or options:
        rows = [_row(p) for p in (*arguments, *options)]
        text += "\n| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    return text + f"\n{command.epilog.replace('Example: ', 'Example: `')}`\n"


def _metavar(parameter: Any) -> str:  # noqa: ANN401
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _row(parameter: Any) -> str:  # noqa: ANN401
    if parameter.param_type_name == "argument":
        shown = str(parameter.metavar or parameter.name.upper())
    else:
        shown = ", ".join(parameter.opts)
        if not parameter.is_flag:
            shown += f" {parameter.metavar or 'VALUE'}"
    return f"| `{shown}` | {(parameter.help or '').replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
