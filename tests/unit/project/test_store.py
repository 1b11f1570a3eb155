"""Statements on schema ``replication`` stand in ``core/store`` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.own_code import PACKAGES, ROOT, syntax_of, text_of

STORE = ROOT / "core" / "store"
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
    if path.suffix == ".sql":
        yield path.read_text(encoding="utf-8")
        return
    if "replication." not in text_of(path):
        return
    tree = syntax_of(path)
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


def test_only_the_store_has_statements_on_its_tables():
    found = {str(path.relative_to(ROOT)): statements(path) for path in FILES}
    assert len(found) == len(FILES) > 0
    assert {name: tables for name, tables in found.items() if tables} == {}


def test_statement_would_be_noticed(tmp_path):
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_text('"""select from replication.source"""\nX = "delete from replication.source"')
    assert statements(bad) == {"source"}
    good.write_text('"""select from replication.source"""\n')
    assert statements(good) == set()
