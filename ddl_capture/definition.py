"""The structure of a table as values, made of the JSON of ``sql/table_definition.sql``. Pure.

The source reports it after each command, and the same query reads it on the target: both come
through here. Every field that the query reports is needed, for a guess could hide a difference; one
that a later layout of the query adds gets a default here, and one that is not known is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

__all__ = [
    "Column",
    "Constraint",
    "DefinitionError",
    "Index",
    "TableDefinition",
    "TableName",
    "decode_definition",
]

#: Schema and name.
TableName = tuple[str, str]

_T = TypeVar("_T")


class DefinitionError(ValueError):
    """A definition that is not what ``sql/table_definition.sql`` gives."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; expressions, type and collation as PostgreSQL prints them."""

    name: str
    type: str
    is_not_null: bool
    #: A generated column has no default.
    default: str | None
    generated: str | None
    #: ``pg_attribute.attidentity``.
    identity: Literal["", "a", "d"]
    #: None: the type's own.
    collation: str | None
    #: The name of its NOT NULL constraint, to make it by; servers before 18 have none, so that it
    #: is not compared.
    not_null_name: str | None = None
    #: The default of its domain, by which rows get values when it is added; it is not compared.
    type_default: str | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """A check, a key, an exclusion or a foreign key."""

    name: str
    #: ``pg_constraint.contype``.
    type: Literal["c", "f", "p", "u", "x"]
    definition: str
    #: What a foreign key is to: the table, or the root of its partitions.
    references: TableName | None


@dataclass(frozen=True, slots=True)
class Index:
    """A unique index."""

    name: str
    definition: str
    is_replica_identity: bool


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table or partitioned table."""

    schema: str
    name: str
    #: ``pg_class.relkind``, ``relpersistence`` and ``relreplident``.
    kind: Literal["r", "p"]
    persistence: Literal["p", "u", "t"]
    replica_identity: Literal["d", "n", "f", "i"]
    #: Whether it belongs to an extension.
    is_extension_member: bool
    partition_key: str | None
    #: The bounds of a partition.
    bound: str | None
    #: What selects it: the table itself, or the root of its partitions.
    root: TableName
    parents: Sequence[TableName]
    columns: Sequence[Column]
    constraints: Sequence[Constraint]
    unique_indexes: Sequence[Index]
    #: Which relation it is; None: a capture of an older version does not say it.
    oid: int | None = None

    @property
    def key(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name

    @property
    def is_identified(self) -> bool:
        """Whether it has a replica identity, by which its updates and deletes can be told."""
        if self.replica_identity == "d":
            return any(constraint.type == "p" for constraint in self.constraints)
        if self.replica_identity == "i":
            # Its index may have been dropped.
            return any(index.is_replica_identity for index in self.unique_indexes)
        return self.replica_identity == "f"

    def find_column(self, name: str | None) -> Column | None:
        """Return the column of a name."""
        return next((column for column in self.columns if column.name == name), None)


def decode_definition(value: object) -> TableDefinition:
    """Read what the query gave for one table.

    Raises
    ------
    DefinitionError
        when a field is not there or not what the query gives.

    """
    table = _Fields(value, "a table")
    schema, name = table.text("schema"), table.text("name")
    table.owner = f"table {schema}.{name}"
    return TableDefinition(
        schema=schema,
        name=name,
        kind=table.choice("kind", "r", "p"),
        persistence=table.choice("persistence", "p", "u", "t"),
        replica_identity=table.choice("identity", "d", "n", "f", "i"),
        is_extension_member=table.flag("extension"),
        partition_key=table.optional("partition_key"),
        bound=table.optional("bound"),
        root=_name(table, table.get("root"), "root"),
        parents=tuple(_name(table, item, "parents") for item in table.items("parents")),
        columns=tuple(map(_column, table.parts("columns", "column"))),
        constraints=tuple(map(_constraint, table.parts("constraints", "constraint"))),
        unique_indexes=tuple(map(_index, table.parts("unique_indexes", "unique index"))),
        oid=table.number("oid"),
    )


def _column(column: _Fields) -> Column:
    return Column(
        name=column.text("name"),
        type=column.text("type"),
        is_not_null=column.flag("not_null"),
        default=column.optional("default"),
        generated=column.optional("generated"),
        identity=column.choice("identity", "", "a", "d"),
        collation=column.optional("collation"),
        not_null_name=column.later("not_null_name"),
        type_default=column.later("type_default"),
    )


def _constraint(constraint: _Fields) -> Constraint:
    references = constraint.get("references")
    return Constraint(
        name=constraint.text("name"),
        type=constraint.choice("type", "c", "f", "p", "u", "x"),
        definition=constraint.text("definition"),
        references=None if references is None else _name(constraint, references, "references"),
    )


def _index(index: _Fields) -> Index:
    return Index(
        name=index.text("name"),
        definition=index.text("definition"),
        is_replica_identity=index.flag("identity"),
    )


def _name(fields: _Fields, value: object, field: str) -> TableName:
    match value:
        case [str(schema), str(name)]:
            return schema, name
    raise fields.error(field)


class _Fields:
    """An object of JSON whose fields are read with their types."""

    def __init__(self, value: object, owner: str) -> None:
        if not isinstance(value, Mapping):
            raise DefinitionError(f"the definition of {owner} is not an object")
        self._value: Mapping[str, object] = value
        self.owner = owner

    def error(self, field: str) -> DefinitionError:
        return DefinitionError(
            f'"{field}" in the definition of {self.owner} is not what the query gives'
        )

    def get(self, field: str) -> object:
        if field not in self._value:
            raise DefinitionError(f'the definition of {self.owner} has no "{field}"')
        return self._value[field]

    def text(self, field: str) -> str:
        value = self.get(field)
        if not isinstance(value, str):
            raise self.error(field)
        return value

    def optional(self, field: str) -> str | None:
        return None if self.get(field) is None else self.text(field)

    def later(self, field: str) -> str | None:
        """Return a field that rows of an older capture do not have."""
        return self.optional(field) if field in self._value else None

    def flag(self, field: str) -> bool:
        value = self.get(field)
        if not isinstance(value, bool):
            raise self.error(field)
        return value

    def number(self, field: str) -> int | None:
        """Read a number that only later layouts of the query give."""
        value = self._value.get(field)
        if value is not None and not isinstance(value, int):
            raise self.error(field)
        return value

    def choice(self, field: str, *known: _T) -> _T:
        value = self.get(field)
        for choice in known:
            if choice == value:
                return choice
        raise self.error(field)

    def items(self, field: str) -> Sequence[object]:
        # An aggregate over no row is null.
        value = self.get(field)
        if not isinstance(value, list | None):
            raise self.error(field)
        return value or ()

    def parts(self, field: str, what: str) -> Sequence[_Fields]:
        return [_Fields(item, f"a {what} of {self.owner}") for item in self.items(field)]
