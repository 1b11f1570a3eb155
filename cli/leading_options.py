"""The options that every command has may stand before its name as well. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["move_leading_options"]

_SWITCHES = frozenset({"--verbose", "-v", "--debug"})
_WITH_VALUE = ("--config", "--log-format")


def move_leading_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with what all commands have behind the name of the command.

    >>> move_leading_options(["--config", "a.toml", "parked", "list"])
    ['parked', 'list', '--config', 'a.toml']
    """
    rest = list(arguments)
    moved: list[str] = []
    while rest:
        if rest[0] in _SWITCHES or rest[0].startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            count = 1
        elif rest[0] in _WITH_VALUE:
            count = 2
        else:
            break
        moved += rest[:count]
        del rest[:count]
    if not rest or rest[0].startswith("-"):
        # No command follows.
        return list(arguments)
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]
