"""What people read and copy goes through one place, where names can do no harm."""

from __future__ import annotations

import ast
import re

from tests.support.own_code import MODULES, ROOT, syntax_of, text_of

OUTPUT = "cli/output/results.py"
# The demo shows names of its own only.
HELD = [name for name in MODULES if name != OUTPUT and not name.startswith("demo/")]
PRINTING = {"echo", "secho", "confirm", "prompt", "Console", "print_exc"}
COMMAND = re.compile(r"\bpgrepl [a-z]+( [a-z]+)? $")


def named(*words: str) -> list[str]:
    """Return the modules with any of these words in them: to look at all of them takes long."""
    return [name for name in HELD if any(word in text_of(ROOT / name) for word in words)]


def printing_calls(tree: ast.Module) -> list[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [f.attr for f in calls if isinstance(f, ast.Attribute)]
    names += [f.id for f in calls if isinstance(f, ast.Name)]
    return [name for name in names if name in PRINTING]


def unquoted_commands(tree: ast.Module) -> list[str]:
    """Return the texts in which a value stands bare after a command of ours."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for part, following in zip(node.values, node.values[1:], strict=False):
                text = str(part.value) if isinstance(part, ast.Constant) else ""
                if COMMAND.search(text) and isinstance(following, ast.FormattedValue):
                    found.append(text)
    return found


def test_only_one_module_prints():
    found = {name: printing_calls(syntax_of(ROOT / name)) for name in named(*PRINTING)}
    assert OUTPUT in MODULES
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_no_command_holds_a_bare_name():
    found = {name: unquoted_commands(syntax_of(ROOT / name)) for name in named("pgrepl ")}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_both_would_be_noticed():
    assert printing_calls(ast.parse("typer.echo(name)")) == ["echo"]
    bare = ast.parse('hint = "Run:" f" pgrepl ddl retry {name}"')
    assert unquoted_commands(bare)
    quoted = ast.parse("""hint = f"Run: {command('ddl', 'retry', name)}" """)
    assert not unquoted_commands(quoted)
