"""What the documents for developers name exists, and what exists is named there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.own_code import PACKAGES, ROOT

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Before its first heading it speaks of commands and of what they make.
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## ")[2]
MIGRATIONS = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("core/store/sql/*.sql"))
)

#: A folder, or a file in one.
_PATH = r"(?:[a-z0-9_]+/)+(?:[A-Za-z0-9_]+\.(?:py|sql|md|sh))?"
_REFERENCE = re.compile(rf"({_PATH})(?:: ([A-Za-z_.]+))?")


def quoted(text: str) -> list[str]:
    """Return what stands between backquotes, without blocks of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(word.split()) for word in re.findall(r"`([^`]+)`", prose)]


def references(text: str) -> list[tuple[str, str]]:
    """Return the files and folders that a text names, each with a name in it or with none."""
    matches = map(_REFERENCE.fullmatch, quoted(text))
    return sorted({(match[1], match[2] or "") for match in matches if match})


def first_column(text: str, title: str) -> set[str]:
    """Return the names in the first column of the table under a heading."""
    _, _, after = text.partition(f"\n## {title}\n")
    assert after, title
    return set(re.findall(r"^\| `([^`]+)` \|", after.partition("\n## ")[0], re.MULTILINE))


def is_defined(code: str, name: str) -> bool:
    """Whether a module has a class, a function or a constant; ``Class.method`` for a method."""
    body: list[ast.stmt] = ast.parse(code).body
    for step in name.split("."):
        found = [
            node
            for node in body
            if getattr(node, "name", None) == step
            or (isinstance(node, ast.Assign) and step in map(ast.unparse, node.targets))
            or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == step)
        ]
        if not found:
            return False
        body = getattr(found[0], "body", [])
    return True


def existing_tables(kind: str) -> set[str]:
    made = re.findall(rf"(?m)^create (?:or replace )?{kind} (replication\.\w+)", MIGRATIONS)
    dropped = re.findall(rf"(?m)^drop {kind} (?:if exists )?(replication\.\w+)", MIGRATIONS)
    return set(made) - set(dropped)


@pytest.mark.parametrize("document", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "changes"])
def test_every_file_and_function_that_is_named_exists(document):
    named = references(document)
    assert named
    missing = [
        f"{path}: {name}"
        for path, name in named
        if not (ROOT / path).exists()
        or (name and not is_defined((ROOT / path).read_text(encoding="utf-8"), name))
    ]
    assert missing == []


def test_every_package_is_named():
    folders = {f"{folder}/" for folder in PACKAGES.values()}
    assert first_column(ARCHITECTURE, "Packages") == folders


def test_every_table_of_the_schema_is_named():
    tables = existing_tables("table")
    assert first_column(ARCHITECTURE, "Tables of schema `replication`") == tables
    named = {word for word in quoted(ARCHITECTURE) if re.fullmatch(r"replication\.\w+", word)}
    assert named == tables | existing_tables("view")


def test_ten_typical_changes_are_described_with_their_files():
    _, _, after = CONTRIBUTING.partition("\n## Where to change what\n")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", after.partition("\n## ")[0], re.MULTILINE)[1:]
    changes = {change: references(files) for change, files in rows if set(change) != {"-"}}
    assert len(changes) >= 10
    assert [change for change, files in changes.items() if not files] == []


def test_names_are_recognised_where_they_are_and_missed_where_they_are_not():
    text = "`core/lsn.py: Lsn.parse`, `core/lsn.py: nothing`, `core/`, `pgrepl status`, `1/2`"
    assert references(text) == [
        ("core/", ""),
        ("core/lsn.py", "Lsn.parse"),
        ("core/lsn.py", "nothing"),
    ]
    code = "LIMIT = 1\nclass A:\n    size: int\n    def run(self): ...\n"
    assert all(is_defined(code, name) for name in ("LIMIT", "A", "A.run", "A.size"))
    assert not any(is_defined(code, name) for name in ("run", "A.walk", "B", "LIMIT.x"))
