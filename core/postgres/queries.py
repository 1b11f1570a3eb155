"""SQL that stands in files of its own, pasteable into psql."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import LiteralString

__all__ = ["load_query"]


@cache
def load_query(package: str, name: str) -> LiteralString:
    """Return ``sql/NAME.sql`` of a package."""
    # A file of ours is as literal as a literal in a module: nothing of a user's can be in it.
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
