r"""Which tables are replicated, and the names of their schemas on the target.

Pure functions over names. A pattern is ``schema.table``; ``*`` in either half stands for any run
of characters, and a backslash before ``.``, ``*`` or ``\`` takes it literally, as in wal2json.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgrepl.config import keys

__all__ = [
    "IDENTIFIER_BYTES",
    "NameClashError",
    "SchemaTemplate",
    "TablePattern",
    "TableSelection",
    "assign_target_schemas",
    "check_target_schema",
    "check_target_table",
    "check_target_tables",
    "default_owner",
    "exact_pattern",
    "is_system_schema",
    "shown_name",
]

#: NAMEDATALEN - 1: PostgreSQL silently cuts longer names.
IDENTIFIER_BYTES = 63

#: This much of a hash stands for what a name over the limit loses.
_HASH_DIGITS = 8

#: What pgrepl calls tables that nobody is to see.
_OWN_PREFIX = "pgrepl_"

#: Schemas that belong to pgrepl or to PostgreSQL on every target.
RESERVED_SCHEMAS = frozenset({"replication", "information_schema", "public"})

_SYSTEM_SCHEMAS = frozenset({"information_schema", "pgrepl"})
_PLACEHOLDERS = frozenset({"source", "db", "schema"})
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_TOKEN = re.compile(r"\\[.*\\]|[^\\]")
_SPECIAL = re.compile(r"[.*\\]")


def is_system_schema(schema: str) -> bool:
    """Whether a source's schema belongs to PostgreSQL or to pgrepl."""
    return schema in _SYSTEM_SCHEMAS or schema.startswith("pg_")


def shown_name(*names: str) -> str:
    """Return a qualified name for a message, quoted where PostgreSQL would.

    >>> shown_name("public", "odd Table")
    'public."odd Table"'
    """
    return ".".join(name if _PLAIN.fullmatch(name) else _quoted(name) for name in names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def default_owner(source: str) -> str:
    """Return the name of a source's role, whatever its length.

    >>> default_owner("shop")
    'pgrepl_shop'
    """
    name = f"pgrepl_{source}"
    if len(name.encode()) <= IDENTIFIER_BYTES:
        return name
    digest = hashlib.sha256(source.encode()).hexdigest()[:_HASH_DIGITS]
    kept = name.encode()[: IDENTIFIER_BYTES - _HASH_DIGITS - 1].decode(errors="ignore")
    return f"{kept}_{digest}"


class NameClashError(ValueError):
    """Names that PostgreSQL could not tell apart, or would cut."""


def exact_pattern(schema: str, table: str) -> str:
    r"""Return the pattern that takes in this table and no other.

    >>> print(exact_pattern("app", "a.*"))
    app.a\.\*
    """
    return ".".join(_SPECIAL.sub(r"\\\g<0>", name) for name in (schema, table))


@dataclass(frozen=True, slots=True)
class TablePattern:
    """One ``schema.table`` pattern of the configuration."""

    text: str
    #: The schema when the pattern names exactly one, else None.
    schema: str | None = field(init=False)
    #: The table when it names exactly one, else None.
    only: tuple[str, str] | None = field(init=False, repr=False, compare=False)
    _schema: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _table: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Split the pattern at its one unescaped dot."""
        tokens = _TOKEN.findall(self.text)
        if "".join(tokens) != self.text or tokens.count(".") != 1:
            message = f'"{self.text}" is not of the form "schema.table"'
            raise ValueError(message)
        dot = tokens.index(".")
        schema, table = tokens[:dot], tokens[dot + 1 :]
        if not schema or not table:
            message = f'"{self.text}" names no schema or no table'
            raise ValueError(message)
        if "\0" in self.text:
            message = f"{self.text!r} holds the character NUL"
            raise ValueError(message)
        literal = None if "*" in schema else _literal(schema)
        if literal is not None and is_system_schema(literal):
            message = f'schema "{literal}" is never replicated'
            raise ValueError(message)
        object.__setattr__(self, "schema", literal)
        is_one = literal is not None and "*" not in table
        object.__setattr__(self, "only", (literal, _literal(table)) if is_one else None)
        object.__setattr__(self, "_schema", _compile(schema))
        object.__setattr__(self, "_table", _compile(table))

    def matches(self, schema: str, table: str) -> bool:
        """Whether the pattern takes in this table."""
        return self.takes_schema(schema) and bool(self._table.fullmatch(table))

    @property
    def is_open(self) -> bool:
        """Whether the pattern takes in tables of any number."""
        return ".*" in self._table.pattern

    @property
    def regexes(self) -> tuple[str, str]:
        """Regular expressions of schema and table, as Python and PostgreSQL read them."""
        return f"^(?:{self._schema.pattern})$", f"^(?:{self._table.pattern})$"

    @property
    def is_of_schemas(self) -> bool:
        """Whether the pattern takes in all tables of whatever schemas it takes in."""
        return self._table.pattern == ".*"

    def takes_schema(self, schema: str) -> bool:
        """Whether the pattern takes in tables of this schema."""
        return bool(self._schema.fullmatch(schema))

    def takes_whole(self, schema: str) -> bool:
        """Whether the pattern takes in all tables of this schema."""
        return self.takes_schema(schema) and self.is_of_schemas


def _literal(tokens: Iterable[str]) -> str:
    return "".join(token[-1] for token in tokens)


def _compile(tokens: Iterable[str]) -> re.Pattern[str]:
    parts = (".*" if part == "*" else re.escape(part[-1]) for part in tokens)
    return re.compile("".join(parts), re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableSelection:
    """The tables of a source that are replicated: included, not excluded, not the system's."""

    include: tuple[TablePattern, ...] = field(
        default=(TablePattern("*.*"),),
        metadata=keys.patterns(
            "the tables to replicate, as `schema.table` patterns", TablePattern, name="tables"
        ),
    )
    exclude: tuple[TablePattern, ...] = field(
        default=(),
        metadata=keys.patterns(
            "tables to skip, whatever `tables` says", TablePattern, name="exclude"
        ),
    )

    append_only: tuple[TablePattern, ...] = field(
        default=(),
        metadata=keys.patterns(
            "tables without a replica identity that are only inserted into and truncated: doctor"
            " accepts them, and an UPDATE or DELETE there marks them for a resync; see"
            " [receive](receive.md#append-only-tables)",
            TablePattern,
            name="append_only",
        ),
    )

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str] = ()) -> TableSelection:
        """Compile patterns given as text."""
        return cls(tuple(map(TablePattern, include)), tuple(map(TablePattern, exclude)))

    @property
    def takes_all(self) -> bool:
        """Whether every table is replicated, whatever its name."""
        return not self.exclude and TablePattern("*.*") in self.include

    def is_append_only(self, schema: str, table: str) -> bool:
        """Whether this table may be replicated by its INSERT and TRUNCATE alone."""
        return any(pattern.matches(schema, table) for pattern in self.append_only)

    def matches(self, schema: str, table: str) -> bool:
        """Whether this table is replicated."""
        if is_system_schema(schema):
            return False
        if any(pattern.matches(schema, table) for pattern in self.exclude):
            return False
        return any(pattern.matches(schema, table) for pattern in self.include)

    def may_match(self, schema: str) -> bool:
        """Whether a table of this schema could be replicated."""
        if is_system_schema(schema):
            return False
        if any(pattern.takes_whole(schema) for pattern in self.exclude):
            return False
        return any(pattern.takes_schema(schema) for pattern in self.include)

    def takes_new_tables(self, schema: str) -> bool:
        """Whether a table made later in this schema could be replicated, whatever its name."""
        return self.may_match(schema) and any(
            pattern.is_open and pattern.takes_schema(schema) for pattern in self.include
        )

    @property
    def takes_new_schemas(self) -> bool:
        """Whether tables of a schema made later could be replicated, whatever its name."""
        return any(pattern.is_open and pattern.schema is None for pattern in self.include)

    @property
    def schemas(self) -> frozenset[str] | None:
        """The schemas the patterns name, or None when only the source knows them."""
        names = [pattern.schema for pattern in self.include]
        return None if None in names else frozenset(name for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class SchemaTemplate:
    """How a source's schema is named on the target, e.g. ``{db}_{schema}``."""

    text: str
    #: Of schemas that have another one: what takes them in whole, and their own template.
    renamed: tuple[tuple[TablePattern, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse anything but the three placeholders."""
        try:
            parts = list(string.Formatter().parse(self.text))
        except ValueError as exc:
            message = f'"{self.text}" has unbalanced braces'
            raise ValueError(message) from exc
        for _, placeholder, spec, conversion in parts:
            if placeholder is None:
                continue
            if placeholder not in _PLACEHOLDERS or spec or conversion:
                message = f'"{{{placeholder}}}" is none of {{source}}, {{db}}, {{schema}}'
                raise ValueError(message)
        if not self.text:
            message = "must not be empty"
            raise ValueError(message)

    def uses(self, placeholder: str) -> bool:
        """Whether the name depends on this placeholder."""
        return any(part[1] == placeholder for part in string.Formatter().parse(self.text))

    def target_schema(self, *, source: str, db: str, schema: str) -> str:
        """Return the target schema for one schema of a source."""
        own = (text for pattern, text in self.renamed if pattern.takes_whole(schema))
        return next(own, self.text).format(source=source, db=db, schema=schema)


def assign_target_schemas(
    names: Iterable[tuple[str, str, SchemaTemplate, Iterable[str]]],
) -> Mapping[tuple[str, str], str]:
    """Map every (source, schema) to its target schema.

    ``names`` holds for each source its name, database, template and schemas.

    Raises
    ------
    NameClashError
        when two source schemas share a target schema, or a name cannot be PostgreSQL's.

    """
    assigned: dict[tuple[str, str], str] = {}
    taken: dict[str, tuple[str, str]] = {}
    for source, db, template, schemas in names:
        for schema in sorted(schemas):
            target = template.target_schema(source=source, db=db, schema=schema)
            here = f'schema "{schema}" of source "{source}"'
            check_target_schema(target, here)
            if target in taken:
                other_source, other_schema = taken[target]
                message = (
                    f'{here} and schema "{other_schema}" of source "{other_source}"'
                    f' would both become "{target}"'
                )
                raise NameClashError(message)
            taken[target] = (source, schema)
            assigned[source, schema] = target
    return assigned


def check_target_tables(
    names: Mapping[tuple[str, str], str], others: Iterable[tuple[str, str]]
) -> None:
    """Refuse names that two tables of a schema would have, or a table and something else there.

    ``names`` leads from tables that have another name on the target to it; ``others`` are the
    relations and types that their schemas have besides.

    Raises
    ------
    NameClashError
        naming one of them.

    """
    taken = {key: key for key in others if key not in names}
    for key, name in sorted(names.items()):
        other = taken.setdefault((key[0], name), key)
        if other != key:
            message = f'{shown_name(*key)} and {shown_name(*other)} would both be called "{name}"'
            raise NameClashError(message)


def check_target_table(target: str, whose: str) -> None:
    """Refuse a name of a table on the target that PostgreSQL would cut, or that is pgrepl's own."""
    length = len(target.encode())
    if length > IDENTIFIER_BYTES:
        message = f'{whose} would become "{target}": {length} bytes, the limit is 63'
        raise NameClashError(message)
    if target.startswith(_OWN_PREFIX) or "\0" in target:
        message = f'{whose} would become "{target}", which no table of a source can be called'
        raise NameClashError(message)


def check_target_schema(target: str, whose: str) -> None:
    """Refuse a target schema that PostgreSQL would cut, or that is not owned by pgrepl."""
    length = len(target.encode())
    if length > IDENTIFIER_BYTES:
        message = f'{whose} would become "{target}": {length} bytes, the limit is 63'
        raise NameClashError(message)
    if target in RESERVED_SCHEMAS or target.startswith("pg_"):
        message = f'{whose} would become "{target}", which is reserved on the target'
        raise NameClashError(message)
