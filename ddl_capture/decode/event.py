"""A row of ``pgrepl.ddl_log`` as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from pgrepl.ddl_capture.definition import DefinitionError, TableDefinition, decode_definition
from pgrepl.errors import SpoolError

__all__ = [
    "CapturedEvent",
    "DroppedObject",
    "EventKind",
    "Homonyms",
    "Rewrite",
    "TouchedObject",
    "decode_event",
]

EventKind = Literal["start", "rewrite", "drop", "end"]

#: PostgreSQL's bits of why a table is rewritten.
REWRITE_PERSISTENCE = 1


@dataclass(frozen=True, slots=True)
class TouchedObject:
    """Something that a command made or changed, as it is called afterwards."""

    tag: str
    type: str
    schema: str | None
    name: str | None
    identity: str


@dataclass(frozen=True, slots=True)
class DroppedObject:
    """Something that a command dropped."""

    type: str
    schema: str | None
    names: Sequence[str]
    identity: str
    #: Named by the command, not dropped along with something that was.
    is_original: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A table that a command rewrites, and PostgreSQL's bits of why."""

    schema: str
    name: str
    reason: int

    @property
    def is_persistence(self) -> bool:
        """Whether it became logged or unlogged."""
        return bool(self.reason & REWRITE_PERSISTENCE)


@dataclass(frozen=True, slots=True)
class Homonyms:
    """What ``sql/homonyms.sql`` returns: names, whatever schema they are in."""

    functions: Sequence[str]
    operators: Sequence[str]
    #: Of casts there are no names.
    has_casts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedEvent:
    """One row of the log."""

    log_id: int
    kind: EventKind
    tag: str
    xid: int
    query: str
    context: str | None
    bodies: Sequence[str]
    ordinal: int | None
    path: Sequence[str]
    invoker: str
    #: Extension to its schema on the source.
    extensions: Mapping[str, str]
    objects: Sequence[TouchedObject]
    dropped: Sequence[DroppedObject]
    rewritten: Rewrite | None
    #: Tables as they are after the command.
    tables: Sequence[TableDefinition] = field(default_factory=tuple)
    #: The settings that the command ran under; empty in a row of an older capture.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The locale of the source's database.
    locale: str | None = None
    #: What names of PostgreSQL's may mean there; None where no rows are computed, or in a row of an
    #: older capture.
    homonyms: Homonyms | None = None


def decode_event(row: Mapping[str, str | None]) -> CapturedEvent:
    """Read a row.

    Raises
    ------
    SpoolError
        when it is not one that the triggers write.

    """
    try:
        return CapturedEvent(
            log_id=int(_need(row, "id")),
            kind=_kind(_need(row, "kind")),
            tag=_need(row, "tag"),
            xid=int(_need(row, "xid")),
            query=row.get("query") or "",
            context=row.get("context"),
            bodies=_texts(_load(row.get("bodies"), [])),
            ordinal=None if row.get("ordinal") is None else _ordinal(_need(row, "ordinal")),
            path=_texts(_load(row.get("path"), [])),
            invoker=_need(row, "invoker"),
            extensions=_named(_load(row.get("extensions"), {})),
            objects=[_touched(item) for item in _load(row.get("objects"), [])],
            dropped=[_dropped(item) for item in _load(row.get("dropped"), [])],
            rewritten=_rewrite(_load(row.get("rewritten"), None)),
            tables=[decode_definition(item) for item in _load(row.get("tables"), [])],
            settings=_named(_load(row.get("settings"), {})),
            locale=row.get("locale"),
            homonyms=_homonyms(_load(row.get("homonyms"), None)),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        # Others may hold a value of the row.
        detail = f": {exc}" if isinstance(exc, DefinitionError) else ""
        raise SpoolError(
            f"a row of pgrepl.ddl_log is not what the triggers of this version write{detail}",
            hint="Renew them on the source with pgrepl ddl install.",
        ) from exc


def _need(row: Mapping[str, str | None], column: str) -> str:
    value = row[column]
    if value is None:
        raise ValueError(column)
    return str(value)


def _ordinal(text: str) -> int:
    """Read which of the statements of a message it is, counted from 1."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def _kind(text: str) -> EventKind:
    if text not in get_args(EventKind):
        raise ValueError(text)
    return cast("EventKind", text)


def _load(text: str | None, default: Any) -> Any:  # noqa: ANN401  whatever JSON holds
    if text is None:
        return default
    value = json.loads(text)
    # No server prints a character that none of its texts can have.
    if "\\u" in text and any(map(_is_foreign, _words_of(value))):
        raise ValueError("foreign characters")
    return value


def _words_of(value: object) -> Iterator[str]:
    """Yield the texts of a value, names of fields among them."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(word):
                yield word
            case dict(fields):
                waiting += [*fields, *fields.values()]
            case list(items):
                waiting += items


def _is_foreign(word: str) -> bool:
    return "\0" in word or any("\ud800" <= character <= "\udfff" for character in word)


def _check_texts(*values: object) -> None:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("no text")


def _check_flag(value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")


def _given(*values: object) -> Iterator[object]:
    return (value for value in values if value is not None)


def _texts(value: object) -> Sequence[str]:
    if not isinstance(value, list):
        raise TypeError("no list")
    _check_texts(*value)
    return value


def _named(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    _check_texts(*value.values())
    return value


def _touched(value: Mapping[str, Any]) -> TouchedObject:
    own = TouchedObject(**value)
    _check_texts(own.tag, own.type)
    # A GRANT has no identity.
    _check_texts(*_given(own.schema, own.name, own.identity))
    return own


def _dropped(value: Mapping[str, Any]) -> DroppedObject:
    own = DroppedObject(**value)
    _check_texts(own.type, *_given(own.schema, own.identity))
    _check_flag(own.is_original)
    return replace(own, names=() if own.names is None else _texts(own.names))


def _rewrite(value: Mapping[str, Any] | None) -> Rewrite | None:
    if value is None:
        return None
    own = Rewrite(**value)
    _check_texts(own.schema, own.name)
    if not isinstance(own.reason, int):
        raise TypeError("no number")
    return own


def _homonyms(value: Mapping[str, Any] | None) -> Homonyms | None:
    if value is None:
        return None
    own = Homonyms(**value)
    _check_texts(*_texts(own.functions), *_texts(own.operators))
    _check_flag(own.has_casts)
    return own
