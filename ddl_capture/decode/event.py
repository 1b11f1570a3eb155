"""A row of ``pgrepl.ddl_log`` as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
            bodies=_load(row.get("bodies"), []),
            ordinal=None if row.get("ordinal") is None else int(_need(row, "ordinal")),
            path=_load(row.get("path"), []),
            invoker=_need(row, "invoker"),
            extensions=_load(row.get("extensions"), {}),
            objects=[TouchedObject(**item) for item in _load(row.get("objects"), [])],
            dropped=[DroppedObject(**item) for item in _load(row.get("dropped"), [])],
            rewritten=_rewrite(_load(row.get("rewritten"), None)),
            tables=[decode_definition(item) for item in _load(row.get("tables"), [])],
            settings=_load(row.get("settings"), {}),
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


def _kind(text: str) -> EventKind:
    if text not in get_args(EventKind):
        raise ValueError(text)
    return cast("EventKind", text)


def _load(text: str | None, default: Any) -> Any:  # noqa: ANN401  whatever JSON holds
    return default if text is None else json.loads(text)


def _rewrite(value: Mapping[str, Any] | None) -> Rewrite | None:
    return None if value is None else Rewrite(**value)


def _homonyms(value: Mapping[str, Any] | None) -> Homonyms | None:
    return None if value is None else Homonyms(**value)
