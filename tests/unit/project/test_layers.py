"""Imports point one way: cli, then the packages of commands, then core."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]["package-dir"]
# A folder inside another belongs to its layer.
FOLDERS = {package: folder.partition("/")[0] for package, folder in PACKAGES.items()}
COMMANDS = {
    "basebackup",
    "ddl_capture",
    "doctor",
    "drop",
    "export",
    "housekeeping",
    "monitor",
    "progress",
    "receiver",
    "replayer",
    "resync",
    "status",
    "systemd",
    "verify",
}
# What a folder may import besides itself and core. A new folder must be entered here.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "throwaway": set(),
    **{package: set() for package in COMMANDS},
    # It copies as the one does, and applies what waited, DDL among it, as the others do.
    "resync": {"basebackup", "ddl_capture", "replayer"},
    # It reads captured DDL, and plans batches as the other does.
    "export": {"ddl_capture", "replayer"},
    # It looks at captured DDL before it keeps what follows.
    "receiver": {"ddl_capture"},
    # It shows what status finds.
    "monitor": {"status"},
    "demo": {"throwaway"},
    "cli": COMMANDS | {"demo", "throwaway"},
}
# What it may name besides, as the type of what is handed to it, but not import when it runs: tasks
# of Spark load the replayer and need none of these, and resync is itself above it.
TYPES: dict[str, set[str]] = {"replayer": {"ddl_capture", "housekeeping", "resync"}}
MODULES = sorted(path for folder in PACKAGES.values() for path in (ROOT / folder).glob("*.py"))


def imported_folders(source: str, *, is_running: bool = False) -> set[str]:
    """Return the folders of ours that a module imports, wherever in it, or only when it runs."""
    names: set[str] = set()
    tree = ast.parse(source)
    if is_running:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    packages = {FOLDERS[name] for name in names if name in FOLDERS}
    parents = {name.rpartition(".")[0] for name in names}
    return (packages | {FOLDERS[name] for name in parents if name in FOLDERS}) - {"core"}


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_every_folder_has_its_place_in_the_layers():
    assert set(ALLOWED) == set(FOLDERS.values())


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_what_lies_below_it(module):
    folder = module.relative_to(ROOT).parts[0]
    source = module.read_text(encoding="utf-8")
    allowed = ALLOWED[folder] | {folder}
    assert imported_folders(source, is_running=True) - allowed == set()
    assert imported_folders(source) - allowed - TYPES.get(folder, set()) == set()


def test_forbidden_import_would_be_noticed():
    assert imported_folders("from pgrepl.receiver import x") == {"receiver"}
    assert imported_folders("def f():\n    import pgrepl.replayer.batches") == {"replayer"}
    assert imported_folders("from pgrepl import cli") == {"cli"}
    assert imported_folders("from pgrepl.errors import PgreplError") == set()
    assert imported_folders("from pgrepl.decoding import stream") == set()
    assert imported_folders("from pgrepl.parallel import workers") == set()
    types = "if TYPE_CHECKING:\n    from pgrepl.resync import Resyncer"
    assert imported_folders(types) == {"resync"}
    assert imported_folders(types, is_running=True) == set()
    assert imported_folders(types.replace("TYPE", "X"), is_running=True) == {"resync"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_exported_names_exist_and_are_sorted(module):
    tree = ast.parse(module.read_text(encoding="utf-8"))
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and "__all__" in ast.dump(node)
    ]
    for names in exported:
        # As ruff sorts them: constants, then classes, then the rest.
        key = [(0 if n.isupper() else 1 if n[0].isupper() else 2, n) for n in names]
        assert key == sorted(key)
        defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        defined |= {n.name for n in tree.body if hasattr(n, "name")}
        defined |= {a.asname or a.name for n in tree.body if hasattr(n, "names") for a in n.names}
        assert set(names) <= defined
