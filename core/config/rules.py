"""Rules: which columns of which tables reach the target masked. Pure but for the salt's reading.

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
from typing import Any, Literal

from pgrepl.config import keys
from pgrepl.config.naming import TablePattern
from pgrepl.errors import ConfigError

__all__ = ["Mask", "MaskKind", "RuleConfig", "Rules", "Salt", "changed_tables"]

MaskKind = Literal["null", "constant", "hash"]

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
        }

    def mistakes(self) -> Iterable[tuple[str, str]]:
        """Return what is wrong with it: key and reason."""
        if not self.tables:
            yield "tables", "is missing: a rule is for some tables"
        named = [*self.null, *self.constant, *self.hash]
        for name in sorted({name for name in named if named.count(name) > 1}):
            yield "", f'column "{name}" has two masks'


@dataclass(frozen=True)
class Rules:
    """The rules of a source."""

    entries: tuple[RuleConfig, ...] = ()

    @cached_property
    def has_masks(self) -> bool:
        """Whether any column of any table is masked."""
        return any(entry.masks for entry in self.entries)

    def is_named(self, schema: str, table: str) -> bool:
        """Whether a rule is for this table, even one that masks nothing."""
        return any(entry.matches(schema, table) for entry in self.entries)

    def masks_of(self, schema: str, table: str) -> Mapping[str, Mask]:
        """Return the masks of a table's columns; the first rule that has one for it decides."""
        found: dict[str, Mask] = {}
        for entry in self.entries:
            if entry.matches(schema, table):
                found = {**entry.masks, **found}
        return found

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
            }
            for entry in self.entries
            if entry.masks
        ]


def changed_tables(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    tables: Iterable[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return the tables that have other masks by one document than by another."""
    old, new = _compiled(before), _compiled(after)
    return [key for key in tables if _described(old, key) != _described(new, key)]


_Compiled = list[tuple[list[TablePattern], Mapping[str, str]]]


def _compiled(document: Sequence[Mapping[str, Any]]) -> _Compiled:
    return [(list(map(TablePattern, entry["tables"])), entry["masks"]) for entry in document]


def _described(document: _Compiled, key: tuple[str, str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for patterns, masks in document:
        if any(pattern.matches(*key) for pattern in patterns):
            found = {**masks, **found}
    return found
