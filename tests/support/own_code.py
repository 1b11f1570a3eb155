"""The code of this project, as tests that hold it to its rules read it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: The folder of each package.
PACKAGES: Mapping[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["setuptools"]["package-dir"]

#: By their paths from the root: each of these is a module of a package.
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in PACKAGES.values()
    for path in (ROOT / folder).glob("*.py")
)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def syntax_of(path: Path) -> ast.Module:
    """Return a module's syntax tree; many tests look at each, and none may change it."""
    return ast.parse(text_of(path))
