"""Rules: what of tables reaches the target masked, or not. Pure but for the salt's reading.

A rule is one ``[[sources.NAME.rules]]``. Tables are told by their own names: a partition too, so
that what becomes of its values never depends on what it is a partition of at the moment.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pgrepl.config import keys
from pgrepl.config.naming import (
    NameClashError,
    SchemaTemplate,
    TablePattern,
    check_target_table,
    shown_name,
)
from pgrepl.errors import ConfigError

__all__ = ["Mask", "MaskKind", "RuleConfig", "Rules", "Salt", "Treatment", "changed_tables"]

#: An omitted column is not on the target at all.
MaskKind = Literal["null", "constant", "hash", "omit"]

#: What tells a salt from others, without telling it.
_CHECK_DIGITS = 8
#: Shorter ones can be guessed; others would not be the same bytes in every encoding.
_SALT = re.compile(r"[!-~]{16,}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Salt:
    """A salt; it is pickled with what copies rows, and printed nowhere."""

    text: str = field(repr=False)

    @property
    def check(self) -> str:
        """What tells it from other salts."""
        digest = hashlib.sha256(b"pgrepl salt " + self.text.encode()).hexdigest()
        return digest[:_CHECK_DIGITS]

    @property
    def setting(self) -> str:
        """The setting that a session on the source has it in."""
        return f"pgrepl.salt_{self.check}"


@dataclass(frozen=True, slots=True)
class Mask:
    """What stands on the target for the values of a column; a null stays a null."""

    kind: MaskKind
    #: Of a constant.
    text: str = ""
    #: The variable of the environment that the salt of a hash is in.
    variable: str = ""
    #: The salt, once it was read.
    salt: Salt | None = field(default=None, repr=False)

    def resolved(self) -> Mask:
        """Return the mask with its salt.

        Raises
        ------
        ConfigError
            when the environment does not have it.

        """
        if self.kind != "hash" or self.salt is not None:
            return self
        text = os.environ.get(self.variable)
        if text is None:
            raise ConfigError(
                f"{self.variable} is not in the environment, and rules hash columns with it",
                hint=f"Set {self.variable} to a secret of 16 characters and more, the same for"
                " every command of pgrepl.",
            )
        if not _SALT.fullmatch(text):
            raise ConfigError(
                f"{self.variable}, the salt of rules, is too short or has other than printable"
                " characters of ASCII",
                hint="Take 16 characters and more, as from: openssl rand -hex 16",
            )
        return replace(self, salt=Salt(text))

    @property
    def description(self) -> str:
        """The mask in a word or two, that two masks share only if they do the same."""
        if self.kind == "hash":
            salt = self.resolved().salt
            return f"hash {salt.check if salt is not None else ''}"
        return f"constant {self.text}" if self.kind == "constant" else self.kind


class Treatment(NamedTuple):
    """All that rules do to a table."""

    masks: Mapping[str, Mask]
    #: The condition of the rows that reach the target; empty: all do.
    where: str

    @property
    def is_any(self) -> bool:
        """Whether they do anything."""
        return bool(self.masks or self.where)


def _check_schema(text: str) -> str | None:
    try:
        SchemaTemplate(text or "x")
    except ValueError as exc:
        return str(exc)
    return None


def _check_variable(name: str) -> str | None:
    return None if _VARIABLE.fullmatch(name) else f'"{name}" is no name of a variable'


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfig:
    """One ``[[sources.NAME.rules]]``."""

    tables: tuple[TablePattern, ...] = field(
        default=(),
        metadata=keys.patterns(
            "the tables it is for, as `schema.table` patterns; partitions by their own names",
            TablePattern,
            name="tables",
        ),
    )
    omit: tuple[str, ...] = field(
        default=(), metadata=keys.words("columns that the target does not have")
    )
    null: tuple[str, ...] = field(
        default=(), metadata=keys.words("columns that are null on the target")
    )
    constant: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        metadata=keys.settings(
            'columns with what stands there for each value that is not null, such as `{ name = "x"'
            " }`, as PostgreSQL prints it",
            check=lambda _: None,
            write=dict,
        ),
    )
    hash: tuple[str, ...] = field(
        default=(),
        metadata=keys.words(
            "columns of type text or varchar whose values become the hexadecimal digits of SHA-256"
            " over salt and value"
        ),
    )
    salt_env: str = field(
        default="PGREPL_SALT",
        metadata=keys.text(
            "the variable of the environment that the salt is in", check=_check_variable
        ),
    )

    where: str = field(
        default="",
        metadata=keys.text(
            "an SQL expression: only rows for which it is true reach the target; of columns of the"
            " replica identity, or of any with `REPLICA IDENTITY FULL`"
        ),
    )

    schema: str = field(
        default="",
        metadata=keys.text(
            "the target schema of whole schemas, which `tables` names as `schema.*`, where it is"
            " not as the source's `schema` says",
            check=_check_schema,
        ),
    )

    table: str = field(
        default="",
        metadata=keys.text(
            "the name on the target of the one table that `tables` names, where it is not its own"
        ),
    )

    def matches(self, schema: str, table: str) -> bool:
        """Whether it is for this table."""
        return any(pattern.matches(schema, table) for pattern in self.tables)

    @property
    def masks(self) -> Mapping[str, Mask]:
        """The masks of its columns."""
        return {
            **{name: Mask("hash", variable=self.salt_env) for name in self.hash},
            **{name: Mask("constant", text) for name, text in self.constant.items()},
            **{name: Mask("null") for name in self.null},
            **{name: Mask("omit") for name in self.omit},
        }

    def mistakes(self) -> Iterable[tuple[str, str]]:
        """Return what is wrong with it: key and reason."""
        if not self.tables:
            yield "tables", "is missing: a rule is for some tables"
        for pattern in self.tables if self.schema else ():
            if not pattern.is_of_schemas:
                why = f'is for whole schemas, such as "{pattern.schema or "app"}.*"'
                yield "schema", f'{why}, not for "{pattern.text}": a schema cannot be split'
        if self.table:
            yield from self._mistakes_of_name()
        named = [*self.omit, *self.null, *self.constant, *self.hash]
        for name in sorted({name for name in named if named.count(name) > 1}):
            yield "", f'column "{name}" has two masks'

    @property
    def renamed(self) -> tuple[str, str] | None:
        """The table that it gives another name; None: it gives none."""
        return self.tables[0].only if self.table and len(self.tables) == 1 else None

    def _mistakes_of_name(self) -> Iterable[tuple[str, str]]:
        if self.renamed is None:
            yield "table", "is the name of one table, which `tables` names without a pattern"
            return
        try:
            check_target_table(self.table, f"table {shown_name(*self.renamed)}")
        except NameClashError as exc:
            yield "table", str(exc)


@dataclass(frozen=True)
class Rules:
    """The rules of a source."""

    entries: tuple[RuleConfig, ...] = ()

    @cached_property
    def has_effects(self) -> bool:
        """Whether any table reaches the target otherwise than it is."""
        return any(entry.masks or entry.where for entry in self.entries)

    @cached_property
    def has_filters(self) -> bool:
        """Whether not all rows of any table reach the target."""
        return any(entry.where for entry in self.entries)

    def where(self, schema: str, table: str) -> str:
        """Return the condition of a table's rows; the first rule that has one decides."""
        found = (entry.where for entry in self.entries if entry.matches(schema, table))
        return next(filter(None, found), "")

    @property
    def changes_structure(self) -> bool:
        """Whether tables on the target lack columns, or foreign keys to rows that are not there."""
        return self.omits or self.has_filters

    def is_filtered(self, schema: str, table: str) -> bool:
        """Whether not all rows of a table reach the target."""
        return bool(self.where(schema, table))

    def treatment(self, schema: str, table: str) -> Treatment:
        """Return all that is done to a table."""
        return Treatment(self.masks_of(schema, table), self.where(schema, table))

    def is_named(self, schema: str, table: str) -> bool:
        """Whether a rule is for this table, even one that masks nothing."""
        return any(
            entry.matches(schema, table)
            for entry in self.entries
            if entry.masks or entry.where or not (entry.schema or entry.table)
        )

    @property
    def schemas(self) -> tuple[tuple[TablePattern, str], ...]:
        """What takes in schemas that have a target schema of their own, and its template."""
        return tuple(
            (pattern, entry.schema)
            for entry in self.entries
            # What is wrong with a name is said of its key.
            if entry.schema and _check_schema(entry.schema) is None
            for pattern in entry.tables
        )

    @cached_property
    def table_names(self) -> Mapping[tuple[str, str], str]:
        """The tables that have another name on the target, with it; the first rule decides."""
        found: dict[tuple[str, str], str] = {}
        for entry in self.entries:
            if entry.renamed is not None:
                found.setdefault(entry.renamed, entry.table)
        return {key: name for key, name in found.items() if name != key[1]}

    def target_table(self, schema: str, table: str) -> str:
        """Return what a new copy of a table is called on the target."""
        return self.table_names.get((schema, table), table)

    def masks_of(self, schema: str, table: str) -> Mapping[str, Mask]:
        """Return the masks of a table's columns; the first rule that has one for it decides."""
        found: dict[str, Mask] = {}
        for entry in self.entries:
            if entry.matches(schema, table):
                found = {**entry.masks, **found}
        return found

    @cached_property
    def omits(self) -> bool:
        """Whether any column of any table is omitted."""
        return any(entry.omit for entry in self.entries)

    def omitted(self, schema: str, table: str) -> frozenset[str]:
        """Return the columns of a table that the target does not have."""
        if not self.omits:
            return frozenset()
        masks = self.masks_of(schema, table)
        return frozenset(name for name, mask in masks.items() if mask.kind == "omit")

    def resolved_masks(self, schema: str, table: str) -> Mapping[str, Mask]:
        """Return the same with their salts.

        Raises
        ------
        ConfigError
            when the environment does not have one.

        """
        return {name: mask.resolved() for name, mask in self.masks_of(schema, table).items()}

    def salts(self) -> frozenset[Salt]:
        """Return all salts."""
        masks = (mask.resolved() for entry in self.entries for mask in entry.masks.values())
        return frozenset(mask.salt for mask in masks if mask.salt is not None)

    def document(self) -> list[dict[str, Any]]:
        """Return the rules as the target keeps them: without the salts."""
        return [
            {
                "tables": [pattern.text for pattern in entry.tables],
                "masks": {name: mask.description for name, mask in entry.masks.items()},
                **({"where": entry.where} if entry.where else {}),
            }
            for entry in self.entries
            if entry.masks or entry.where
        ]


def changed_tables(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    tables: Iterable[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return the tables to which one document does something else than another."""
    old, new = _compiled(before), _compiled(after)
    return [key for key in tables if _described(old, key) != _described(new, key)]


_Compiled = list[tuple[list[TablePattern], Mapping[str, str], str]]


def _compiled(document: Sequence[Mapping[str, Any]]) -> _Compiled:
    return [
        (list(map(TablePattern, entry["tables"])), entry["masks"], entry.get("where", ""))
        for entry in document
    ]


def _described(document: _Compiled, key: tuple[str, str]) -> tuple[Mapping[str, str], str]:
    found: dict[str, str] = {}
    condition = ""
    for patterns, masks, where in document:
        if any(pattern.matches(*key) for pattern in patterns):
            found = {**masks, **found}
            condition = condition or where
    return found, condition
