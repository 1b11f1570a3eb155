"""Every place where a process can be killed is in docs/guarantees.md, with a test that does it."""

from __future__ import annotations

import ast
import re

from tests.support.own_code import MODULES, ROOT, syntax_of, text_of

ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \| [^|]+ \| `(tests/[^:`]+): (test_[^`]+)` \|$")


def documented() -> dict[str, tuple[str, str]]:
    lines = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines()
    rows = [found.groups() for line in lines if (found := ROW.match(line))]
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: (file, test) for name, file, test in rows}


def reached() -> set[str]:
    """Return the names with which the code calls ``reach``."""
    names = set()
    for path in (ROOT / name for name in MODULES):
        if "reach(" not in text_of(path):
            continue
        for node in ast.walk(syntax_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "reach":
                names |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {name for name in names if isinstance(name, str)}


def texts_of(file: str, test: str) -> set[str]:
    """Return the texts in a test, its parameters, and the constants of its module that it names."""
    module = syntax_of(ROOT / file)
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


def test_every_place_has_a_test_that_names_it():
    places = documented()
    texts = {name: texts_of(file, test) for name, (file, test) in places.items()}
    assert [
        name
        for name, found in texts.items()
        if name.split(".")[1] not in found and not any(name in text for text in found)
    ] == []
