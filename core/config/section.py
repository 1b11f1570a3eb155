"""Strict reading of one TOML table: what is taken is checked, what is left over is unknown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pgrepl.durations import parse_duration
from pgrepl.errors import ConfigError

__all__ = ["Problems", "Section"]

T = TypeVar("T")

# PostgreSQL's own units and meaning: powers of 1024.
_SIZE = re.compile(r"([1-9][0-9]{0,8})\s*(kB|MB|GB|TB)")
_UNITS = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_LONGEST_SHOWN = 1 << 64


class Problems:
    """The mistakes of one file, in the order they were found."""

    def __init__(self, path: Path) -> None:
        """Begin with none."""
        self._path = path
        self._found: list[tuple[str, str]] = []

    def add(self, key: str, reason: str) -> None:
        """Note one mistake."""
        self._found.append((key, reason))

    def raise_if_any(self) -> None:
        """Raise one ConfigError that names every mistake."""
        if not self._found:
            return
        lines = [f"{key}: {reason}" for key, reason in self._found]
        if len(lines) == 1:
            raise ConfigError(f"{self._path}: {lines[0]}")
        told = f"{self._path}: {len(lines)} mistakes"
        raise ConfigError(
            f"{told}: {'; '.join(lines)}", lines=[told, *(f"  {line}" for line in lines)]
        )


class Section:
    """One table of the file. Take every key, then call ``finish``."""

    def __init__(self, table: dict[str, Any], path: str, problems: Problems) -> None:
        """Read from a table that stands at this dotted path."""
        self._table = table
        self._path = path
        self._problems = problems
        self._known: list[str] = []

    def problem(self, key: str, reason: str) -> None:
        """Note a mistake at a key of this section."""
        self._problems.add(".".join(filter(None, (self._path, key))), reason)

    @property
    def name(self) -> str:
        """The last part of the section's path."""
        return self._path.rpartition(".")[2]

    def names(self) -> Iterable[str]:
        """Return the keys that are there."""
        return tuple(self._table)

    def section(self, key: str, *, required: bool = True) -> Section:
        """Take a table; one that is missing or no table is read as empty."""
        path = ".".join(filter(None, (self._path, key)))
        value = self._take(key)
        if value is None and required:
            self.problem(key, f"section [{path}] is missing")
        elif value is not None and not isinstance(value, dict):
            self.problem(key, f"must be a section [{path}], not {_kind(value)}")
        return _Empty(path) if not isinstance(value, dict) else Section(value, path, self._problems)

    def sections(self, key: str) -> list[Section]:
        """Take a list of tables; what is no list of them is read as none."""
        path = ".".join(filter(None, (self._path, key)))
        value = self._take(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.problem(key, f"must be written as sections [[{path}]]")
            return []
        return [
            Section(item, f"{path}.{number}", self._problems)
            for number, item in enumerate(value, 1)
        ]

    def text(self, key: str, *, default: str | None = None, may_be_empty: bool = False) -> str:
        """Take a text; one without a default must be there and not empty."""
        value = self._take(key)
        if isinstance(value, str) and "\0" in value:
            self.problem(key, "must not hold the character NUL")
            return default or ""
        if isinstance(value, str) and (value.strip() or (may_be_empty and not value)):
            return value
        if value is None and default is not None:
            return default
        if value is None:
            self.problem(key, "is missing")
        elif isinstance(value, str):
            self.problem(key, "must not be empty")
        else:
            self.problem(key, f"must be a text in quotes, not {_kind(value)}")
        return default or ""

    def integer(self, key: str, *, default: int, low: int, high: int) -> int:
        """Take a whole number within limits."""
        value = self._take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, f"must be a whole number, not {_kind(value)}")
            return default
        if not low <= value <= high:
            # Python prints no number of thousands of digits.
            shown = f", not {value}" if abs(value) < _LONGEST_SHOWN else ""
            self.problem(key, f"must lie between {low} and {high}{shown}")
            return default
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        """Take true or false."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(key, f"must be true or false without quotes, not {_kind(value)}")
            return default
        return value

    def duration(self, key: str, *, default: timedelta, high: timedelta) -> timedelta:
        """Take a length of time such as ``"30d"``."""
        text = self.text(key, default="")
        duration = self.convert(key, text, parse_duration, fallback=default)
        if duration > high:
            self.problem(key, f"must be {high.days}d at most")
            return default
        return duration

    def size(self, key: str) -> int | None:
        """Take a size such as ``"20GB"`` and return it in bytes; None when it is not there."""
        text = self.text(key, default="0")
        match = _SIZE.fullmatch(text.strip())
        if match is not None:
            return int(match[1]) * _UNITS[match[2]]
        if text != "0":
            self.problem(key, 'must be a size such as "20GB": a whole number and kB, MB, GB or TB')
        return None

    def choice(self, key: str, choices: Sequence[str], *, default: str) -> str:
        """Take one of a few words."""
        value = self._take(key)
        if value is None:
            return default
        if value not in choices:
            listed = " or ".join(f'"{choice}"' for choice in choices)
            self.problem(key, f"must be {listed}")
            return default
        return str(value)

    def choices(
        self, key: str, choices: Sequence[str], *, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Take a list of a few words."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, list) or not all(item in choices for item in value):
            listed = ", ".join(f'"{choice}"' for choice in choices)
            self.problem(key, f"must be a list of some of {listed}")
            return default
        return tuple(dict.fromkeys(value))

    def patterns(
        self, key: str, make: Callable[[str], T], *, default: tuple[T, ...]
    ) -> tuple[T, ...]:
        """Take a list of table patterns."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(key, 'must be a list of texts such as ["public.*"]')
            return ()
        if not value and default:
            self.problem(key, "must not be empty: nothing would be replicated")
        found = []
        for item in value:
            try:
                found.append(make(item))
            except ValueError as exc:
                self.problem(key, str(exc))
        return tuple(found)

    def words(self, key: str, *, default: tuple[str, ...]) -> tuple[str, ...]:
        """Take a list of texts."""
        value = self._take(key)
        if value is None:
            return default
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not isinstance(value, list) or not is_list or any("\0" in item for item in value):
            self.problem(key, 'must be a list of texts such as ["mail", "-s", "pgrepl"]')
            return default
        return tuple(value)

    def flat_texts(self, key: str) -> dict[str, str]:
        """Take a table of settings; ``a.b = 1`` and ``"a.b" = "1"`` mean the same."""
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(key, f"must be a table, not {_kind(value)}")
            return {}
        texts: dict[str, str] = {}
        pending = [(str(name), item) for name, item in value.items()]
        while pending:
            name, item = pending.pop(0)
            if isinstance(item, dict):
                pending += [(f"{name}.{inner}", part) for inner, part in item.items()]
            elif name in texts:
                self.problem(f"{key}.{name}", "is set twice")
            elif isinstance(item, bool):
                texts[name] = str(item).lower()
            elif isinstance(item, int) and abs(item) >= _LONGEST_SHOWN:
                self.problem(f"{key}.{name}", "is too big a number")
            elif isinstance(item, str) and "\0" in item:
                self.problem(f"{key}.{name}", "must not hold the character NUL")
            elif isinstance(item, str | int | float):
                texts[name] = str(item)
            else:
                self.problem(f"{key}.{name}", f"must be a text or a number, not {_kind(item)}")
        return texts

    def convert(self, key: str, text: str, make: Callable[[str], T], *, fallback: T) -> T:
        """Make a value of a text; a ValueError becomes a mistake at this key."""
        if not text:
            return fallback
        try:
            return make(text)
        except ValueError as exc:
            self.problem(key, str(exc))
            return fallback

    def finish(self) -> None:
        """Note every key that nothing took."""
        for key in self._table:
            if key in self._known:
                continue
            near = difflib.get_close_matches(key, self._known, n=1)
            self.problem(key, "unknown key" + (f'; did you mean "{near[0]}"?' if near else ""))

    def _take(self, key: str) -> object:
        self._known.append(key)
        return self._table.get(key)


class _Empty(Section):
    """Stands for a section that is not there: every default, no further mistakes."""

    def __init__(self, path: str) -> None:
        super().__init__({}, path, Problems(Path()))


def _kind(value: object) -> str:
    """Name a TOML type without showing the value, which may be a secret."""
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number with a point",
        str: "a text",
        list: "a list",
        dict: "a section",
    }
    return names.get(type(value), "a date or time")
