"""Where code may stand in a statement, and the statement without it. Pure.

Code is what PostgreSQL evaluates on the target, now or with every row: checks, defaults, generated
columns, conversions, expressions and conditions of indexes, expressions of statistics. Whether it
may be there is for others to say. What is taken out leaves the structure: a generated column
becomes a plain one, a conversion gives null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["CodeKind", "CodePlace", "keep", "remove_code"]

CodeKind = Literal[
    "check",
    "default",
    "exclusion constraint",
    "foreign key",
    "generated column",
    "index",
    "partition key",
    "range function",
    "statistics",
    "unique constraint",
    "conversion",
]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_OBJECT = pg_query_pb2.ObjectType
#: The functions of a range type. Its values come as the source has them, in their canonical form.
_RANGE_FUNCTIONS = frozenset({"canonical", "subtype_diff"})
_COLUMN_CODE: dict[int, CodeKind] = {
    _CON.CONSTR_CHECK: "check",
    _CON.CONSTR_DEFAULT: "default",
    _CON.CONSTR_GENERATED: "generated column",
}


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A piece of code in a statement."""

    kind: CodeKind
    #: The table it is about, as the statement names it; None: a domain or a type.
    table: Tree | None
    expressions: Sequence[Tree]
    #: The column that gets the value.
    column: str | None = None
    #: The type that the value gets, where the statement says so.
    type_name: Tree | None = None
    #: What the constraint, index or statistics object is called, where the statement says so.
    name: str | None = None
    #: Pairs of index elements that an operator compares, for exclusion constraints.
    operators: Sequence[tuple[Tree, Sequence[str]]] = ()
    #: Names of operator classes, or of functions of a range type.
    names: Sequence[Sequence[str]] = ()
    #: Whether it is a domain's, where "value" stands for the value.
    is_domain: bool = False
    #: Whether rows that are there get values by it.
    fills_rows: bool = False


Judge = Callable[[CodePlace], bool]


def remove_code(tree: Tree, is_allowed: Judge) -> bool:
    """Take out of a statement the code that is not allowed; False when nothing is left of it."""
    kind, statement = statement_of(tree)
    remover = _REMOVERS.get(kind)
    return True if remover is None else remover(statement, is_allowed)


def _from_create(statement: Tree, is_allowed: Judge) -> bool:
    table = statement.relation
    for node in statement.table_elts:
        if node.HasField("column_def"):
            _from_column(node.column_def, table, is_allowed, fills_rows=False)
    for node in statement.constraints:
        # Of a typed table, or a partition.
        _from_column(node.column_def, table, is_allowed, fills_rows=False)
    keep(statement.table_elts, lambda node: _is_kept(node.constraint, table, is_allowed))
    if statement.HasField("partspec"):
        elements = [node.partition_elem for node in statement.partspec.part_params]
        place = CodePlace(
            "partition key",
            table,
            [element.expr for element in elements if element.HasField("expr")],
            names=[_texts(element.opclass) for element in elements if element.opclass],
        )
        if place.expressions or place.names:
            # Without it there is no table: who does not allow it has to refuse the statement.
            is_allowed(place)
    return True


def _from_alter(statement: Tree, is_allowed: Judge) -> bool:
    table = statement.relation
    commands = [node.alter_table_cmd for node in statement.cmds]
    added = {
        getattr(command, "def").column_def.colname
        for command in commands
        if command.subtype == _AT.AT_AddColumn
    }
    for command in commands if statement.objtype != _OBJECT.OBJECT_TYPE else ():
        if command.subtype == _AT.AT_ColumnDefault:
            _from_default(command, table, is_allowed, is_added=command.name in added)
        elif command.subtype in _COMMANDS:
            _COMMANDS[command.subtype](command, table, is_allowed)
    keep(
        statement.cmds,
        lambda node: (
            node.alter_table_cmd.subtype != _AT.AT_AddConstraint
            or _is_kept(getattr(node.alter_table_cmd, "def").constraint, table, is_allowed)
        ),
    )
    return len(statement.cmds) > 0


def _from_added(command: Tree, table: Tree, is_allowed: Judge) -> None:
    _from_column(getattr(command, "def").column_def, table, is_allowed, fills_rows=True)


def _from_default(command: Tree, table: Tree, is_allowed: Judge, *, is_added: bool) -> None:
    if not command.HasField("def"):
        return
    expression = getattr(command, "def")
    if is_allowed(CodePlace("default", table, [expression], column=command.name)):
        return
    if is_added:
        # DROP DEFAULT would come before the column that the same statement adds.
        _set_null(expression)
    else:
        # NULL would be kept as a default where the type has a length.
        command.ClearField("def")


def _from_conversion(command: Tree, table: Tree, is_allowed: Judge) -> None:
    column = getattr(command, "def").column_def
    place = CodePlace(
        "conversion",
        table,
        [column.raw_default] if column.HasField("raw_default") else [],
        column=command.name,
        type_name=column.type_name,
        fills_rows=True,
    )
    if not is_allowed(place):
        _set_null(column.raw_default)


def _from_expression(command: Tree, table: Tree, is_allowed: Judge) -> None:
    expression = getattr(command, "def")
    place = CodePlace("generated column", table, [expression], column=command.name, fills_rows=True)
    if not is_allowed(place):
        command.ClearField("def")
        command.subtype = _AT.AT_DropExpression
        command.missing_ok = True


_COMMANDS: dict[int, Callable[[Tree, Tree, Judge], None]] = {
    _AT.AT_AddColumn: _from_added,
    _AT.AT_AlterColumnType: _from_conversion,
    _AT.AT_SetExpression: _from_expression,
}


def _from_column(column: Tree, table: Tree, is_allowed: Judge, *, fills_rows: bool) -> None:
    type_name = column.type_name if column.HasField("type_name") else None

    def is_kept(node: Tree) -> bool:
        kind = _COLUMN_CODE.get(node.constraint.contype)
        if kind is None:
            return True
        is_check = kind == "check"
        return is_allowed(
            CodePlace(
                kind,
                table,
                [node.constraint.raw_expr],
                column=column.colname,
                type_name=None if is_check else type_name,
                name=node.constraint.conname or None if is_check else None,
                fills_rows=fills_rows and not is_check,
            )
        )

    keep(column.constraints, is_kept)


def _is_kept(constraint: Tree, table: Tree | None, is_allowed: Judge) -> bool:
    """Whether a constraint of a table stays."""
    name = constraint.conname or None
    if constraint.contype == _CON.CONSTR_CHECK:
        return is_allowed(CodePlace("check", table, [constraint.raw_expr], name=name))
    if constraint.contype == _CON.CONSTR_EXCLUSION:
        pairs = [
            (pair.list.items[0].index_elem, pair.list.items[1]) for pair in constraint.exclusions
        ]
        return is_allowed(
            CodePlace(
                "exclusion constraint",
                table,
                [
                    *(element.expr for element, _ in pairs if element.HasField("expr")),
                    *([constraint.where_clause] if constraint.HasField("where_clause") else []),
                ],
                name=name,
                operators=[(element, _texts(names.list.items)) for element, names in pairs],
                names=[_texts(element.opclass) for element, _ in pairs if element.opclass],
            )
        )
    return True


def _from_index(statement: Tree, is_allowed: Judge) -> bool:
    elements = [node.index_elem for node in statement.index_params]
    place = CodePlace(
        "index",
        statement.relation,
        [
            *(element.expr for element in elements if element.HasField("expr")),
            *([statement.where_clause] if statement.HasField("where_clause") else []),
        ],
        name=statement.idxname or None,
        names=[_texts(element.opclass) for element in elements if element.opclass],
    )
    return not (place.expressions or place.names) or is_allowed(place)


def _from_statistics(statement: Tree, is_allowed: Judge) -> bool:
    expressions = [
        node.stats_elem.expr for node in statement.exprs if node.stats_elem.HasField("expr")
    ]
    place = CodePlace(
        "statistics",
        statement.relations[0].range_var,
        expressions,
        name=next(iter(_texts(statement.defnames)[-1:]), None),
    )
    return not expressions or is_allowed(place)


def _from_domain(statement: Tree, is_allowed: Judge) -> bool:
    keep(
        statement.constraints,
        lambda node: _is_kept_of_domain(
            node.constraint, statement.domainname, statement.type_name, is_allowed
        ),
    )
    return True


def _is_kept_of_domain(
    constraint: Tree, domain: Tree, type_name: Tree | None, is_allowed: Judge
) -> bool:
    kind = _COLUMN_CODE.get(constraint.contype)
    return kind is None or is_allowed(
        CodePlace(
            kind,
            None,
            [constraint.raw_expr],
            type_name=type_name,
            name=constraint.conname or None,
            names=[_texts(domain)],
            is_domain=True,
        )
    )


def _from_altered_domain(statement: Tree, is_allowed: Judge) -> bool:
    if statement.HasField("def") and statement.subtype == "T":
        place = CodePlace(
            "default",
            None,
            [getattr(statement, "def")],
            names=[_texts(statement.type_name)],
            is_domain=True,
        )
        if not is_allowed(place):
            statement.ClearField("def")
    elif statement.HasField("def") and getattr(statement, "def").HasField("constraint"):
        constraint = getattr(statement, "def").constraint
        return _is_kept_of_domain(constraint, statement.type_name, None, is_allowed)
    return True


def _from_range(statement: Tree, is_allowed: Judge) -> bool:
    def is_kept(node: Tree) -> bool:
        if node.def_elem.defname not in _RANGE_FUNCTIONS:
            return True
        names = _texts(node.def_elem.arg.type_name.names)
        return is_allowed(CodePlace("range function", None, [], names=[names]))

    keep(statement.params, is_kept)
    return True


def _from_schema(statement: Tree, is_allowed: Judge) -> bool:
    keep(statement.schema_elts, lambda node: remove_code(node, is_allowed))
    return True


_REMOVERS: dict[str, Callable[[Tree, Judge], bool]] = {
    "AlterDomainStmt": _from_altered_domain,
    "AlterTableStmt": _from_alter,
    "CreateDomainStmt": _from_domain,
    "CreateRangeStmt": _from_range,
    "CreateSchemaStmt": _from_schema,
    "CreateStatsStmt": _from_statistics,
    "CreateStmt": _from_create,
    "IndexStmt": _from_index,
}


def _set_null(expression: Tree) -> None:
    expression.CopyFrom(pg_query_pb2.Node())
    expression.a_const.isnull = True


def keep(nodes: Tree, is_kept: Callable[[Tree], bool]) -> None:
    """Keep some nodes of a list."""
    kept = [node for node in nodes if is_kept(node)]
    if len(kept) != len(nodes):
        copies = [type(node).FromString(node.SerializeToString()) for node in kept]
        del nodes[:]
        nodes.extend(copies)


def _texts(nodes: Tree) -> list[str]:
    return [node.string.sval for node in nodes]
