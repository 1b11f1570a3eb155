"""Imports point one way: cli, then the packages of commands, then core."""

from __future__ import annotations

import ast

from tests.support.own_code import MODULES, PACKAGES, ROOT, syntax_of

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
    # It removes what the capture made.
    "drop": {"ddl_capture"},
    # It shows what status finds.
    "monitor": {"status"},
    "demo": {"throwaway"},
    "cli": COMMANDS | {"demo", "throwaway"},
}
# What it may name besides, as the type of what is handed to it, but not import when it runs: tasks
# of Spark load the replayer and need none of these, and resync is itself above it.
TYPES: dict[str, set[str]] = {"replayer": {"ddl_capture", "housekeeping", "resync"}}


def imported_folders(tree: ast.Module, *, is_running: bool = False) -> set[str]:
    """Return the folders of ours that a module imports, wherever in it, or only when it runs."""
    names: set[str] = set()
    statements = [node for node in tree.body if not (is_running and is_for_types(node))]
    for node in (node for statement in statements for node in ast.walk(statement)):
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


def forbidden_imports(module: str) -> set[str]:
    """Return what a module imports that does not lie below it."""
    folder = module.partition("/")[0]
    tree = syntax_of(ROOT / module)
    allowed = ALLOWED[folder] | {folder}
    running = imported_folders(tree, is_running=True) - allowed
    return running | (imported_folders(tree) - allowed - TYPES.get(folder, set()))


def test_modules_import_only_what_lies_below_them():
    found = {module: forbidden_imports(module) for module in MODULES}
    assert {module: folders for module, folders in found.items() if folders} == {}


def test_forbidden_import_would_be_noticed():
    assert imported_folders(ast.parse("from pgrepl.receiver import x")) == {"receiver"}
    assert imported_folders(ast.parse("def f():\n    import pgrepl.replayer.batches")) == {
        "replayer"
    }
    assert imported_folders(ast.parse("from pgrepl import cli")) == {"cli"}
    assert imported_folders(ast.parse("from pgrepl.errors import PgreplError")) == set()
    assert imported_folders(ast.parse("from pgrepl.decoding import stream")) == set()
    assert imported_folders(ast.parse("from pgrepl.parallel import workers")) == set()
    types = ast.parse("if TYPE_CHECKING:\n    from pgrepl.resync import Resyncer")
    assert imported_folders(types) == {"resync"}
    assert imported_folders(types, is_running=True) == set()
    other = ast.parse("if X_CHECKING:\n    from pgrepl.resync import Resyncer")
    assert imported_folders(other, is_running=True) == {"resync"}


def misplaced_exports(tree: ast.Module) -> list[str]:
    """Return what a module exports that it does not define, or out of order."""
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and "__all__" in ast.dump(node)
    ]
    found = []
    for names in exported:
        # As ruff sorts them: constants, then classes, then the rest.
        key = [(0 if n.isupper() else 1 if n[0].isupper() else 2, n) for n in names]
        found += [a[1] for a, b in zip(key, sorted(key), strict=True) if a != b]
        defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        defined |= {n.name for n in tree.body if hasattr(n, "name")}
        defined |= {a.asname or a.name for n in tree.body if hasattr(n, "names") for a in n.names}
        found += sorted(set(names) - defined)
    return found


def test_exported_names_exist_and_are_sorted():
    found = {module: misplaced_exports(syntax_of(ROOT / module)) for module in MODULES}
    assert {module: names for module, names in found.items() if names} == {}


def test_misplaced_export_would_be_noticed():
    assert misplaced_exports(ast.parse('__all__ = ["A", "b"]\nA = b = 1')) == []
    assert misplaced_exports(ast.parse('__all__ = ["b", "A"]\nA = b = 1')) == ["b", "A"]
    assert misplaced_exports(ast.parse('__all__ = ["A", "b"]\nA = 1')) == ["b"]
