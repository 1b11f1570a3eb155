"""Every place where a process can be killed is in docs/guarantees.md, with a test that does it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \| [^|]+ \| `(tests/[^:`]+): (test_[^`]+)` \|$")


def documented() -> dict[str, tuple[str, str]]:
    lines = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines()
    rows = [found.groups() for line in lines if (found := ROW.match(line))]
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: (file, test) for name, file, test in rows}


def reached() -> set[str]:
    """Return the names with which the code calls ``reach``."""
    names = set()
    for file in ROOT.glob("[a-z]*/**/*.py"):
        if file.relative_to(ROOT).parts[0] in {"build", "tests"}:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "reach":
                names |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {name for name in names if isinstance(name, str)}


def texts_of(file: str, test: str) -> set[str]:
    """Return the texts in a test, its parameters, and the constants of its module that it names."""
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    (found,) = (n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == test)
    named = [n.id for n in ast.walk(found) if isinstance(n, ast.Name)]
    nodes = [found, *(constants[name] for name in named if name in constants)]
    return {
        part.value
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def test_list_has_every_place_and_no_other():
    assert reached() == set(documented())


@pytest.mark.parametrize("name", sorted(documented()))
def test_place_has_a_test_that_names_it(name):
    file, test = documented()[name]
    texts = texts_of(file, test)
    assert name.split(".")[1] in texts or any(name in text for text in texts)
