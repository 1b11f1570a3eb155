"""What a statement of a dump is about: a pure reading of its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import OBJECT_KINDS, STATEMENT_KINDS, statement_of

__all__ = ["Subject", "function_arguments", "statistics_of", "subject_of"]

_OBJECT = pg_query_pb2.ObjectType

_WITH_A_TABLE = frozenset({_OBJECT.OBJECT_COLUMN, _OBJECT.OBJECT_TABCONSTRAINT})
# The access method comes first.
_WITH_A_METHOD = frozenset({_OBJECT.OBJECT_OPCLASS, _OBJECT.OBJECT_OPFAMILY})
_WITH_ARGUMENTS = frozenset({"pg_operator", "pg_proc"})
_OUTPUT_ONLY = frozenset(
    {
        pg_query_pb2.FunctionParameterMode.FUNC_PARAM_OUT,
        pg_query_pb2.FunctionParameterMode.FUNC_PARAM_TABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Subject:
    """An object by catalogue and name; a function or operator also by its arguments' types."""

    catalog: str
    schema: str
    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the name for messages."""
        arguments = f"({', '.join(self.arguments)})" if self.catalog in _WITH_ARGUMENTS else ""
        return f"{self.schema}.{self.name}{arguments}"


def subject_of(tree: Tree) -> Subject | None:
    """Return what a statement makes, changes or comments on; None when it is none of our kinds."""
    kind, statement = statement_of(tree)
    known = STATEMENT_KINDS.get(kind)
    if known is None or not known.is_dumped:
        return None
    if kind in _OTHERS:
        return _OTHERS[kind](statement)
    if known.catalog is None:
        return None
    relation = known.relation_in(statement)
    if relation is not None:
        return _relation(relation, known.catalog)
    return _named(known.catalog, texts(known.names_in(statement)))


def function_arguments(statement: Tree) -> tuple[str, ...]:
    """Return the names of the types that a function is called with."""
    parameters = [node.function_parameter for node in statement.parameters]
    return tuple(
        _type_name(parameter.arg_type)
        for parameter in parameters
        if parameter.mode not in _OUTPUT_ONLY
    )


def statistics_of(statement: Tree) -> Subject:
    """Return what CREATE STATISTICS makes; ``subject_of`` returns the table."""
    schema, name = texts(statement.defnames)
    return Subject("pg_statistic_ext", schema, name)


def _type_name(node: Tree) -> str:
    return texts(node.names)[-1] + "[]" * bool(node.array_bounds)


def _relation(node: Tree, catalog: str = "pg_class") -> Subject:
    return Subject(catalog, node.schemaname, node.relname)


def _catalog(object_type: int) -> str | None:
    known = OBJECT_KINDS.get(object_type)
    return None if known is None else known.catalog


def _named(catalog: str, names: list[str], arguments: tuple[str, ...] = ()) -> Subject | None:
    if len(names) != 2:  # noqa: PLR2004  pg_dump qualifies everything
        return None
    return Subject(catalog, names[0], names[1], arguments)


def _defined(statement: Tree) -> Subject | None:
    catalog = _catalog(statement.kind)
    if catalog is None:
        return None
    arguments: tuple[str, ...] = ()
    if catalog == "pg_proc" and statement.args and statement.args[0].HasField("list"):
        parameters = [node.function_parameter for node in statement.args[0].list.items]
        arguments = tuple(_type_name(parameter.arg_type) for parameter in parameters)
    elif catalog == "pg_operator":
        options = {node.def_elem.defname: node.def_elem.arg for node in statement.definition}
        sides = [options[side] for side in ("leftarg", "rightarg") if side in options]
        arguments = tuple(_type_name(side.type_name) for side in sides)
    return _named(catalog, texts(statement.defnames), arguments)


def _commented(statement: Tree) -> Subject | None:
    catalog = _catalog(statement.objtype)
    node = statement.object
    if catalog is None:
        return None
    if node.HasField("object_with_args"):
        # An operator with one argument has NONE in the other's place.
        given = [a.type_name for a in node.object_with_args.objargs if a.HasField("type_name")]
        arguments = tuple(_type_name(type_name) for type_name in given)
        return _named(catalog, texts(node.object_with_args.objname), arguments)
    if node.HasField("type_name"):
        return _named(catalog, texts(node.type_name.names))
    if statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT:
        return _named(catalog, texts(node.list.items[0].type_name.names))
    names = texts(node.list.items)
    if statement.objtype in _WITH_A_TABLE:
        names = names[:2]
    elif statement.objtype in _WITH_A_METHOD:
        names = names[1:]
    return _named(catalog, names)


_OTHERS: Mapping[str, Callable[[Tree], Subject | None]] = {
    "CommentStmt": _commented,
    "CreateFunctionStmt": lambda s: _named("pg_proc", texts(s.funcname), function_arguments(s)),
    "CreateStatsStmt": lambda s: _relation(s.relations[0].range_var),
    "DefineStmt": _defined,
}
