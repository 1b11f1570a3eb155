"""The compiled core is optional: what could not be compiled is not installed, and all else is.

Everything but this is in ``pyproject.toml``.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext


class OptionalBuild(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Compiles, and names only what that has made."""

    def get_output_mapping(self) -> dict[str, str]:
        """Return what is installed from where; an editable install would look for all of it."""
        mapping: dict[str, str] = super().get_output_mapping()
        return {to: made for to, made in mapping.items() if Path(made).exists()}


setup(cmdclass={"build_ext": OptionalBuild})
