"""A key of ``pgrepl.toml``, declared once: where its value is kept.

A field of a section's dataclass has the key's type and default; its metadata, made by a function of
this module, says how the file gives it and what it means. Reading the file, ``pgrepl config show``
and the tables of ``docs/configuration.md`` follow from that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, get_args

from pgrepl.config.section import Section
from pgrepl.durations import write_duration

__all__ = [
    "Key",
    "boolean",
    "choice",
    "choices",
    "converted",
    "documented",
    "duration",
    "entries",
    "group",
    "integer",
    "patterns",
    "read_keys",
    "secret",
    "settings",
    "size",
    "text",
    "words",
    "write_keys",
]

T = TypeVar("T")
Metadata: TypeAlias = Mapping[str, Any]
#: Returns what is wrong with a value, or None.
Check: TypeAlias = Callable[[T], str | None]

_KEY = "key"
_GROUP = "group"
_OPTIONAL = "optional"
#: The default of a key that must be there.
_REQUIRED: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """How a value is read from the file, written as the file takes it, and documented."""

    #: A sentence in Markdown.
    meaning: str
    #: Takes the value from a section, by the key's name, with its default.
    read: Callable[[Section, str, Any], Any]
    #: Returns the value as JSON, of which TOML takes texts, numbers and lists alike.
    write: Callable[[Any], Any] = lambda value: value
    #: The key's name, where the field has another.
    name: str | None = None
    #: Makes the default of the name of the section, where it rests on that.
    default_for: Callable[[str], Any] | None = None
    #: The default in words, where it is no value.
    default_words: str | None = None


def text(
    meaning: str,
    *,
    default_for: Callable[[str], str] | None = None,
    check: Check[str] = lambda _: None,
    write: Callable[[str], str] = str,
) -> Metadata:
    """Declare a text."""

    def read(section: Section, key: str, default: str) -> str:
        # A default is what the file can give.
        value = section.text(key, default=default, may_be_empty=not default)
        _complain(section, key, check(value))
        return value

    return {_KEY: Key(meaning=meaning, read=read, write=write, default_for=default_for)}


def converted(
    meaning: str,
    make: Callable[[str], T],
    *,
    write: Callable[[T], str],
    empty: T | None = None,
    default_words: str | None = None,
) -> Metadata:
    """Declare a text that a value is made of; ``empty`` stands for one that must be there."""

    def read(section: Section, key: str, default: T | None) -> T | None:
        may_be_empty = default is not None and not write(default)
        given = section.text(
            key, default=None if default is _REQUIRED else "", may_be_empty=may_be_empty
        )
        return section.convert(key, given, make, fallback=empty if default is None else default)

    return {_KEY: Key(meaning=meaning, read=read, write=write, default_words=default_words)}


def integer(meaning: str, *, low: int, high: int) -> Metadata:
    """Declare a whole number within limits."""

    def read(section: Section, key: str, default: int) -> int:
        return section.integer(key, default=default, low=low, high=high)

    return {_KEY: Key(meaning=meaning, read=read)}


def boolean(meaning: str) -> Metadata:
    """Declare true or false."""

    def read(section: Section, key: str, default: bool) -> bool:  # noqa: FBT001  as all others
        return section.boolean(key, default=default)

    return {_KEY: Key(meaning=meaning, read=read)}


def choice(meaning: str, literal: object) -> Metadata:
    """Declare one of the words of a ``Literal``."""
    words = get_args(literal)

    def read(section: Section, key: str, default: str) -> str:
        return section.choice(key, words, default=default)

    return {_KEY: Key(meaning=meaning, read=read)}


def choices(meaning: str, words: tuple[str, ...]) -> Metadata:
    """Declare a list of a few words."""

    def read(section: Section, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return section.choices(key, words, default=default)

    return {_KEY: Key(meaning=meaning, read=read, write=list)}


def duration(meaning: str, *, high: timedelta) -> Metadata:
    """Declare a length of time."""

    def read(section: Section, key: str, default: timedelta) -> timedelta:
        return section.duration(key, default=default, high=high)

    return {_KEY: Key(meaning=meaning, read=read, write=write_duration)}


def size(meaning: str, *, default_words: str) -> Metadata:
    """Declare a size in bytes, or None for what the words say."""

    def read(section: Section, key: str, _default: None) -> int | None:
        return section.size(key)

    return {_KEY: Key(meaning=meaning, read=read, write=_write_size, default_words=default_words)}


def patterns(meaning: str, make: Callable[[str], T], *, name: str) -> Metadata:
    """Declare a list of patterns, each of which has its ``text``."""

    def read(section: Section, key: str, default: tuple[T, ...]) -> tuple[T, ...]:
        return section.patterns(key, make, default=default)

    def write(values: tuple[Any, ...]) -> list[str]:
        return [pattern.text for pattern in values]

    return {_KEY: Key(meaning=meaning, read=read, write=write, name=name)}


def words(meaning: str) -> Metadata:
    """Declare a list of texts, such as the words of a command."""

    def read(section: Section, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return section.words(key, default=default)

    return {_KEY: Key(meaning=meaning, read=read, write=list)}


def secret(meaning: str, *, check: Check[str]) -> Metadata:
    """Declare a text that is shown nowhere; without it there is none."""

    def read(section: Section, key: str, default: str) -> str:
        value = section.text(key, default=default, may_be_empty=not default)
        _complain(section, key, check(value) if value else None)
        return value

    def write(value: str) -> str:
        return "********" if value else ""

    return {_KEY: Key(meaning=meaning, read=read, write=write)}


def settings(
    meaning: str, *, check: Check[str], write: Callable[[Mapping[str, str]], dict[str, str]]
) -> Metadata:
    """Declare a table of settings; each name is checked."""

    def read(section: Section, key: str, _default: object) -> Mapping[str, str]:
        found = section.flat_texts(key)
        for setting in found:
            _complain(section, f"{key}.{setting}", check(setting))
        return MappingProxyType(found)

    return {_KEY: Key(meaning=meaning, read=read, write=write)}


def entries(meaning: str, kind: type[T], make: Callable[[tuple[T, ...]], Any]) -> Metadata:
    """Declare a list of tables, each with the keys of a class, and what is made of them.

    The class says of each what is wrong with it, by ``mistakes``.
    """

    def read(section: Section, key: str, _default: object) -> Any:  # noqa: ANN401  as it makes
        found = []
        for part in section.sections(key):
            value: Any = read_keys(kind, part)
            for name, reason in value.mistakes():
                part.problem(name, reason)
            found.append(value)
        return make(tuple(found))

    def write(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401  as it was made
        return [write_keys(entry) for entry in value.entries]

    return {_KEY: Key(meaning=meaning, read=read, write=write)}


def group(kind: type, *, is_optional: bool = False) -> Metadata:
    """Declare a value whose own fields are keys of the same section.

    An optional one is not written when it is all defaults: few sections have it.
    """
    return {_GROUP: kind, _OPTIONAL: is_optional}


def read_keys(kind: type[T], section: Section, **given: object) -> T:
    """Make a section's value of what the file says, and note what is unknown there."""
    value = _read_keys(kind, section, given)
    section.finish()
    return value


def _read_keys(kind: type[T], section: Section, given: Mapping[str, object]) -> T:
    values = dict(given)
    for field in _fields(kind):
        if _GROUP in field.metadata:
            values[field.name] = _read_keys(field.metadata[_GROUP], section, {})
        elif _KEY in field.metadata:
            key: Key = field.metadata[_KEY]
            default = _default(field, key, section.name)
            values[field.name] = key.read(section, key.name or field.name, default)
    return kind(**values)


def write_keys(value: object) -> dict[str, Any]:
    """Return a section as the file would give it, every default filled in; no value: no key."""
    written: dict[str, Any] = {}
    for field in _fields(type(value)):
        item = getattr(value, field.name)
        if _GROUP in field.metadata:
            is_left_out = field.metadata[_OPTIONAL] and item == field.metadata[_GROUP]()
            written |= {} if is_left_out else write_keys(item)
        elif _KEY in field.metadata and item is not None:
            key: Key = field.metadata[_KEY]
            written[key.name or field.name] = key.write(item)
    return written


def documented(kind: type) -> Iterator[tuple[str, str, str]]:
    """Return name, default and meaning of each key of a section, in Markdown."""
    for field in _fields(kind):
        if _GROUP in field.metadata:
            yield from documented(field.metadata[_GROUP])
        elif _KEY in field.metadata:
            key: Key = field.metadata[_KEY]
            default = _default(field, key, "NAME")
            if key.default_words is not None:
                shown = key.default_words
            elif default is _REQUIRED:
                shown = "none, required"
            else:
                shown = f"`{json.dumps(key.write(default), ensure_ascii=False)}`"
            yield f"`{key.name or field.name}`", shown, key.meaning


def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(kind)


def _default(field: Field[Any], key: Key, name: str) -> Any:  # noqa: ANN401  of the key's type
    if key.default_for is not None:
        return key.default_for(name)
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else _REQUIRED


def _complain(section: Section, key: str, reason: str | None) -> None:
    if reason is not None:
        section.problem(key, reason)


def _write_size(size_bytes: int) -> str:
    """Print a size in the largest unit that shows it whole, as the file takes it."""
    for unit in ("kB", "MB", "GB"):
        size_bytes //= 1024
        if size_bytes % 1024:
            return f"{size_bytes}{unit}"
    return f"{size_bytes // 1024}TB"
