"""What people read and copy goes through one place, where names can do no harm."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]["package-dir"].values()
OUTPUT = ROOT / "cli" / "output" / "results.py"
# The demo shows names of its own only.
MODULES = sorted(
    path
    for folder in set(FOLDERS) - {"demo"}
    for path in (ROOT / folder).glob("*.py")
    if path != OUTPUT
)
PRINTING = {"echo", "secho", "confirm", "prompt", "Console", "print_exc"}
COMMAND = re.compile(r"\bpgrepl [a-z]+( [a-z]+)? $")


def printing_calls(source: str) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = [f.attr for f in calls if isinstance(f, ast.Attribute)]
    names += [f.id for f in calls if isinstance(f, ast.Name)]
    return [name for name in names if name in PRINTING]


def unquoted_commands(source: str) -> list[str]:
    """Return the texts in which a value stands bare after a command of ours."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for part, following in zip(node.values, node.values[1:], strict=False):
                text = str(part.value) if isinstance(part, ast.Constant) else ""
                if COMMAND.search(text) and isinstance(following, ast.FormattedValue):
                    found.append(text)
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_one_module_prints_and_no_command_holds_a_bare_name(module):
    source = module.read_text(encoding="utf-8")
    assert printing_calls(source) == []
    assert unquoted_commands(source) == []


def test_both_would_be_noticed():
    assert printing_calls("typer.echo(name)") == ["echo"]
    assert unquoted_commands('hint = "Run:" f" pgrepl ddl retry {name}"')
    assert not unquoted_commands("""hint = f"Run: {command('ddl', 'retry', name)}" """)
