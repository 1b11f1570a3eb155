"""What the target is asked about a piece of code: its expressions, and the columns they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.code_places import CodePlace
from pgrepl.ddl_capture.policy.judge import Question
from pgrepl.source_code.policy import is_constant
from pgrepl.syntax.parse import (
    Tree,
    is_same,
    parse,
    parse_one,
    print_expression,
    print_type,
    quoted_names,
    walk,
)
from pgrepl.syntax.remap import RemapError, SchemaMap, remap

__all__ = ["Questions"]

#: The number of types that are kept.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Questions:
    """Makes questions of places in statements that have the target's names."""

    target: Workspace
    #: Structures of the source's tables after the command.
    tables: Sequence[TableDefinition]

    def make(
        self, place: CodePlace, *, is_harmless_enough: bool, with_constants: bool = False
    ) -> Question | None:
        """Return what is to be asked; None when there is nothing in it but constants."""
        own = list(self.target.names.schemas.values())
        expressions = [
            print_expression(expression)
            for expression in place.expressions
            if with_constants
            or not (
                # What rows get must be the same, and a cast may look at the clock.
                expression.HasField("a_const") if place.fills_rows else is_constant(expression, own)
            )
        ]
        if place.kind == "conversion" and not place.expressions:
            expressions = [quoted_names(place.column or "")]
        for element, names in place.operators:
            value = (
                print_expression(element.expr)
                if element.HasField("expr")
                else quoted_names(element.name)
            )
            operator = ".".join([*(quoted_names(name) for name in names[:-1]), names[-1]])
            expressions.append(f"({value}) operator({operator}) ({value})")
        if not expressions:
            return None
        columns = self._columns(place)
        kind = place.type_name
        type_sql = None if kind is None or place.kind == "check" else print_type(kind)
        if type_sql is None and place.kind in ("default", "generated column"):
            type_sql = (
                ".".join(map(quoted_names, place.names[0]))
                if place.is_domain
                else columns.get(place.column or "")
            )
        mentioned = (
            {
                field.string.sval
                for expression in place.expressions
                for part in walk(expression)
                if part.DESCRIPTOR.name == "ColumnRef"
                for field in part.fields
            }
            | {element.name for element, _ in place.operators}
            | {place.column}
        )
        return Question(
            expressions=expressions,
            place="value" if place.table is None else place.table.relname,
            columns=[(name, kind) for name, kind in columns.items() if name in mentioned],
            type_sql=type_sql,
            is_harmless_enough=is_harmless_enough,
        )

    def _columns(self, place: CodePlace) -> dict[str, str]:
        """Return the types of the columns that an expression sees, as SQL."""
        if place.table is None:
            named = ".".join(map(quoted_names, place.names[0]))
            return {"value": print_type(place.type_name) if place.type_name else named}
        key = (place.table.schemaname, place.table.relname)
        here = self.target.definitions([key]).get(key)
        columns = {column.name: column.type for column in (here.columns if here else ())}
        # A conversion sees the columns as they were.
        reported = None if place.kind == "conversion" else self.reported(place.table)
        for column in reported.columns if reported else ():
            try:
                columns[column.name] = _mapped_type(column.type, self.target.names)
            except RemapError:
                continue
        return columns

    def is_same(self, here: str, there: str) -> bool:
        """Whether two expressions as PostgreSQL printed them are the same, the other's renamed."""
        try:
            renamed = remap(parse_one(f"select {there}"), self.target.names).sql
        except RemapError:
            return False
        return is_same(parse_one(renamed), parse_one(f"select {here}"))

    def reported(self, relation: Tree) -> TableDefinition | None:
        """Return the structure that the source reported of a table of the target."""
        key = self.on_source(relation)
        return next((t for t in self.tables if t.key == key), None)

    def on_source(self, relation: Tree) -> TableName:
        """Return the name of a table of the target on the source."""
        return self.source_schema(relation.schemaname), relation.relname

    def source_schema(self, schema: str) -> str:
        """Return the name of a schema of the target on the source."""
        sources = {target: source for source, target in self.target.names.schemas.items()}
        return sources.get(schema, schema)


@lru_cache(maxsize=_KEPT)
def _mapped_type(type_sql: str, names: SchemaMap) -> str:
    """Return a type of the source as it is called on the target."""
    (tree,) = parse(remap(parse_one(f"select null::{type_sql}"), names).sql)
    value = tree.select_stmt.target_list[0].res_target.val
    return print_type(value.type_cast.type_name)
