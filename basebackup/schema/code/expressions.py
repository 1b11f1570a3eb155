"""The places in a dump where an expression stands, and a dump without some of them. Pure.

What is a constant, or a key or index of plain columns, calls nothing and is no element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.statements.subject import statistics_of
from pgrepl.config.naming import shown_name
from pgrepl.source_code.policy import CATALOG, is_constant
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse, to_sql
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Element", "Key", "shown_expression", "sort_out"]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_METHODS = frozenset({"", "brin", "btree", "gin", "gist", "hash", "spgist"})
_COLUMN_KINDS = {
    _CON.CONSTR_CHECK: "check",
    _CON.CONSTR_DEFAULT: "default",
    _CON.CONSTR_GENERATED: "generated column",
}
_RANGE_KINDS = {
    "canonical": "range type",
    "subtype_opclass": "range type",
    "subtype_diff": "range difference",
}

#: Kind, schema, table, and name of its own: as in ``replication.skipped_code``.
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Element:
    """Something that may call code."""

    kind: str
    schema: str
    table: str
    name: str
    #: Expressions; or the one statement or constraint that makes it.
    trees: tuple[Tree, ...] = field(compare=False)
    #: Of the column, when the value is cast to it.
    type_name: Tree = field(default=None, compare=False)

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.kind, self.schema, self.table, self.name

    @property
    def definition(self) -> str | None:
        """Its text, with the source's names; None: it cannot be printed."""
        try:
            return ", ".join(map(_shown, self.trees))
        except SqlSyntaxError:
            return None


Keep = Callable[[Element], bool]


def sort_out(tree: Tree, keep: Keep) -> Tree | None:
    """Return a copy of a statement with only those elements that are to be kept.

    None when nothing of the statement is left.
    """
    copy = type(tree)()
    copy.CopyFrom(tree)
    kind, statement = statement_of(copy)
    handler = _HANDLERS.get(kind)
    return copy if handler is None or handler(copy, statement, keep) else None


def shown_expression(node: Tree) -> str:
    """Print an expression."""
    (statement,) = parse("select x")
    statement.select_stmt.target_list[0].res_target.val.CopyFrom(node)
    return to_sql(statement).removeprefix("SELECT ")


def _shown(node: Tree) -> str:
    name = node.DESCRIPTOR.name
    if name == "Constraint":
        (statement,) = parse("alter table x add check (true)")
        getattr(statement.alter_table_stmt.cmds[0].alter_table_cmd, "def").constraint.CopyFrom(node)
        return to_sql(statement).partition(" ADD ")[2]
    if name == "Node" and node.HasField("def_elem"):
        option = node.def_elem
        return f"{option.defname} = {shown_name(*texts(option.arg.type_name.names))}"
    if name == "Node" and node.HasField("partition_elem"):
        return shown_name(*texts(node.partition_elem.opclass))
    if name == "Node" and node.WhichOneof("node").endswith("_stmt"):
        return to_sql(node)
    return shown_expression(node)


def _create(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    place = (statement.relation.schemaname, statement.relation.relname)
    kept = []
    for node in statement.table_elts:
        if node.HasField("column_def"):
            _column(node.column_def, place, keep)
        elif _is_check(node) and not keep(
            Element("check", *place, node.constraint.conname, (node.constraint.raw_expr,))
        ):
            continue
        kept.append(_clone(node))
    _replace(statement.table_elts, kept)
    if statement.HasField("partspec"):
        computed = tuple(_computed_key(statement.partspec))
        if computed and not keep(Element("partition key", *place, "", computed)):
            statement.ClearField("partspec")
    return True


def _is_check(node: Tree) -> bool:
    return bool(node.HasField("constraint") and node.constraint.contype == _CON.CONSTR_CHECK)


def _column(column: Tree, place: tuple[str, str], keep: Keep) -> None:
    kept = []
    for node in column.constraints:
        constraint = node.constraint
        kind = _COLUMN_KINDS.get(constraint.contype)
        if kind is not None and not is_constant(constraint.raw_expr):
            name = constraint.conname if kind == "check" else column.colname
            element = Element(kind, *place, name, (constraint.raw_expr,), column.type_name)
            if not keep(element):
                continue
        kept.append(_clone(node))
    _replace(column.constraints, kept)


def _computed_key(specification: Tree) -> Iterator[Tree]:
    for node in specification.part_params:
        element = node.partition_elem
        if element.HasField("expr"):
            yield element.expr
        if not _is_plain(element.opclass):
            yield node


def _alter(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    place = (statement.relation.schemaname, statement.relation.relname)
    command = statement.cmds[0].alter_table_cmd
    definition = getattr(command, "def")
    if command.subtype == _AT.AT_ColumnDefault and command.HasField("def"):
        return is_constant(definition) or keep(
            Element("default", *place, command.name, (definition,))
        )
    if command.subtype != _AT.AT_AddConstraint:
        return True
    constraint = definition.constraint
    if constraint.contype == _CON.CONSTR_CHECK:
        return keep(Element("check", *place, constraint.conname, (constraint.raw_expr,)))
    if constraint.contype == _CON.CONSTR_EXCLUSION:
        return keep(Element("exclusion constraint", *place, constraint.conname, (constraint,)))
    if constraint.contype == _CON.CONSTR_FOREIGN:
        return keep(Element("foreign key", *place, constraint.conname, (constraint,)))
    return True


def _domain(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    place = (texts(statement.domainname)[0], texts(statement.domainname)[-1])
    kept = []
    for node in statement.constraints:
        constraint = node.constraint
        kind = _COLUMN_KINDS.get(constraint.contype)
        if kind is not None and not is_constant(constraint.raw_expr):
            name = constraint.conname if kind == "check" else ""
            trees = (constraint.raw_expr,)
            if not keep(Element(f"domain {kind}", *place, name, trees, statement.type_name)):
                continue
        kept.append(_clone(node))
    _replace(statement.constraints, kept)
    return True


def _alter_domain(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    place = (texts(statement.type_name)[0], texts(statement.type_name)[-1])
    definition = getattr(statement, "def")
    if not _is_check(definition):
        return True
    constraint = definition.constraint
    return keep(Element("domain check", *place, constraint.conname, (constraint.raw_expr,)))


def _range(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    place = (texts(statement.type_name)[0], texts(statement.type_name)[-1])
    kept = []
    for node in statement.params:
        option = node.def_elem
        kind = _RANGE_KINDS.get(option.defname)
        if kind is not None and not keep(Element(kind, *place, option.defname, (node,))):
            continue
        kept.append(_clone(node))
    _replace(statement.params, kept)
    return True


def _index(tree: Tree, statement: Tree, keep: Keep) -> bool:
    elements = [node.index_elem for node in statement.index_params]
    is_plain = (
        statement.access_method in _METHODS
        and not statement.HasField("where_clause")
        and all(element.name and _is_plain(element.opclass) for element in elements)
    )
    place = (statement.relation.schemaname, statement.relation.relname)
    return is_plain or keep(Element("index", *place, statement.idxname, (tree,)))


def _statistics(tree: Tree, statement: Tree, keep: Keep) -> bool:
    del tree
    expressions = tuple(
        node.stats_elem.expr for node in statement.exprs if node.stats_elem.HasField("expr")
    )
    table = statement.relations[0].range_var
    name = statistics_of(statement).name
    element = Element("statistics", table.schemaname, table.relname, name, expressions)
    return not expressions or keep(element)


def _view(tree: Tree, statement: Tree, keep: Keep) -> bool:
    view = statement.view
    return keep(Element("view", view.schemaname, view.relname, "", (tree,)))


def _create_as(tree: Tree, statement: Tree, keep: Keep) -> bool:
    view = statement.into.rel
    return keep(Element("materialized view", view.schemaname, view.relname, "", (tree,)))


def _is_plain(operator_class: Tree) -> bool:
    names = texts(operator_class)
    return len(names) < 2 or names[0] == CATALOG  # noqa: PLR2004  schema and name


def _clone(node: Tree) -> Tree:
    return type(node).FromString(node.SerializeToString())


def _replace(nodes: Tree, kept: list[Tree]) -> None:
    del nodes[:]
    nodes.extend(kept)


_HANDLERS: dict[str, Callable[[Tree, Tree, Keep], bool]] = {
    "AlterDomainStmt": _alter_domain,
    "AlterTableStmt": _alter,
    "CreateDomainStmt": _domain,
    "CreateRangeStmt": _range,
    "CreateStatsStmt": _statistics,
    "CreateStmt": _create,
    "CreateTableAsStmt": _create_as,
    "IndexStmt": _index,
    "ViewStmt": _view,
}
