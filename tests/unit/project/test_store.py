"""Statements on schema ``replication`` stand in ``core/store`` and nowhere else."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STORE = ROOT / "core" / "store"
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]["package-dir"]
FOLDERS = [
    ROOT / folder for folder in PACKAGES.values() if not (ROOT / folder).is_relative_to(STORE)
]
STATEMENT = re.compile(
    r"\b(?:from|join|using|insert into|update|copy|table|only|truncate)\s+"
    r"replication\.(?P<table>[a-z_{]+)",
    re.IGNORECASE,
)


def sql_of(path: Path) -> Iterator[str]:
    """Return the texts of a file that may be SQL: no comment and no docstring of Python."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        yield text
        return
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.value


def statements(path: Path) -> set[str]:
    return {match["table"] for sql in sql_of(path) for match in STATEMENT.finditer(sql)}


FILES = sorted(
    path for folder in FOLDERS for pattern in ("*.py", "sql/*.sql") for path in folder.glob(pattern)
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_store_has_statements_on_its_tables(path):
    name = str(path.relative_to(ROOT))
    assert not statements(path), name


def test_statement_would_be_noticed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('"""select from replication.source"""\nX = "delete from replication.source"')
    assert statements(module) == {"source"}
    module.write_text('"""select from replication.source"""\n')
    assert statements(module) == set()
