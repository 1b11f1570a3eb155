"""Statements without columns that the target does not have. Pure.

What a statement says of such a column is taken out of it: the column of a CREATE TABLE, subcommands
of an ALTER TABLE, and constraints, indexes, statistics, comments and privileges that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from postgast import pg_query_pb2

from pgrepl.syntax.nodes import definition_of, keep_nodes, texts
from pgrepl.syntax.parse import Tree, quoted_names, walk
from pgrepl.syntax.statement_kinds import statement_of

__all__ = [
    "ColumnNeededError",
    "Lacking",
    "Removed",
    "RemovedPart",
    "names_column",
    "remove_columns",
]


@dataclass(frozen=True, slots=True)
class Lacking:
    """What the target does not have of a table, by its schema and name."""

    columns: Callable[[str, str], Collection[str]]
    #: Whether it lacks rows, so that no foreign key can be to it.
    rows: Callable[[str, str], bool] = lambda _, __: False


_AT = pg_query_pb2.AlterTableType
_OBJECT = pg_query_pb2.ObjectType
#: The parts of a constraint that are lists of names.
_NAMES = ("keys", "including", "fk_attrs", "fk_del_set_cols")
_QUALIFIED = 3


class ColumnNeededError(ValueError):
    """A statement needs a column that the target does not have."""


@dataclass(frozen=True, slots=True)
class RemovedPart:
    """A column, or what names one."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return it for a message."""
        return f"{self.kind} {quoted_names(self.name)}" if self.name else f"a {self.kind}"


@dataclass(slots=True)
class Removed:
    """What was taken out of a statement."""

    parts: list[RemovedPart] = field(default_factory=list)
    #: Whether the statement is another one now.
    is_changed: bool = False
    #: Whether a statement is left.
    is_left: bool = True
    #: The column that it gives a name by which it is omitted; it is not taken out yet.
    renamed: str | None = None


def remove_columns(tree: Tree, lacking: Lacking) -> Removed:
    """Take out of a statement what it says of columns that are omitted.

    Raises
    ------
    ColumnNeededError
        when it does not work without one of them.

    """
    kind, statement = statement_of(tree)
    removed = Removed()
    handler = _HANDLERS.get(kind)
    if handler is not None:
        before = tree.SerializeToString()
        handler(statement, lacking, removed)
        removed.is_changed = tree.SerializeToString() != before
    return removed


def names_column(part: Tree, columns: Collection[str], lacking: Lacking | None = None) -> bool:
    """Whether a constraint, an index or an expression names one of some columns, or whole rows.

    ``lacking`` tells of a foreign key whether it refers to such a column of another table, or to
    rows that are not there.
    """
    for node in walk(part):
        what = node.DESCRIPTOR.name
        if what == "ColumnRef" and columns:
            last = node.fields[-1]
            if last.HasField("a_star") or last.string.sval in columns:
                return True
        elif what in ("IndexElem", "StatsElem", "PartitionElem") and node.name in columns:
            return True
        elif what == "Constraint":
            if any(name in columns for key in _NAMES for name in texts(getattr(node, key))):
                return True
            other = node.pktable
            if lacking is not None and node.HasField("pktable"):
                omitted = lacking.columns(other.schemaname, other.relname)
                if any(name in omitted for name in texts(node.pk_attrs)):
                    return True
                if lacking.rows(other.schemaname, other.relname):
                    return True
    return False


def _create_table(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    columns = lacking.columns(statement.relation.schemaname, statement.relation.relname)
    if columns and (statement.HasField("of_typename") or names_column(statement.partspec, columns)):
        message = "a table of a type, or partitioned by the column, cannot be without it"
        raise ColumnNeededError(message)

    def is_kept(node: Tree) -> bool:
        if node.HasField("column_def"):
            return _keeps_column(node.column_def, columns, lacking, removed)
        return not node.HasField("constraint") or _keeps(node.constraint, columns, lacking, removed)

    keep_nodes(statement.table_elts, is_kept)


def _create_schema(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    schema = statement.schemaname
    here = Lacking(
        lambda given, table: lacking.columns(given or schema, table),
        lambda given, table: lacking.rows(given or schema, table),
    )

    def is_kept(node: Tree) -> bool:
        inner = remove_columns(node, here)
        removed.parts += inner.parts
        return inner.is_left

    keep_nodes(statement.schema_elts, is_kept)


def _keeps_column(
    column: Tree, columns: Collection[str], lacking: Lacking, removed: Removed
) -> bool:
    if column.colname in columns:
        removed.parts.append(RemovedPart("column", column.colname))
        return False
    keep_nodes(column.constraints, lambda node: _keeps(node.constraint, columns, lacking, removed))
    return True


def _keeps(constraint: Tree, columns: Collection[str], lacking: Lacking, removed: Removed) -> bool:
    if constraint.contype == pg_query_pb2.ConstrType.CONSTR_GENERATED:
        if names_column(constraint, columns):
            message = "another column is generated from it"
            raise ColumnNeededError(message)
        return True
    if not names_column(constraint, columns, lacking):
        return True
    removed.parts.append(RemovedPart("constraint", constraint.conname))
    return False


def _alter_table(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    if statement.objtype != _OBJECT.OBJECT_TABLE:
        return
    columns = lacking.columns(statement.relation.schemaname, statement.relation.relname)

    def is_kept(node: Tree) -> bool:
        command = node.alter_table_cmd
        definition = definition_of(command)
        if command.subtype == _AT.AT_AddColumn:
            return _keeps_column(definition.column_def, columns, lacking, removed)
        if command.subtype == _AT.AT_AddConstraint:
            return _keeps(definition.constraint, columns, lacking, removed)
        what = _AT.Name(command.subtype)
        if ("Column" in what or what in _OF_COLUMNS) and command.name in columns:
            removed.parts.append(RemovedPart("column", command.name))
            return False
        if columns and names_column(command, columns):
            message = "its expressions name a column that rules omit"
            raise ColumnNeededError(message)
        return True

    keep_nodes(statement.cmds, is_kept)
    removed.is_left = len(statement.cmds) > 0


#: Subcommands about one column whose names do not say so.
_OF_COLUMNS = frozenset(
    {
        *("AT_AddIdentity", "AT_DropExpression", "AT_DropIdentity", "AT_DropNotNull"),
        *("AT_ResetOptions", "AT_SetCompression", "AT_SetExpression", "AT_SetIdentity"),
        *("AT_SetNotNull", "AT_SetOptions", "AT_SetStatistics", "AT_SetStorage"),
    }
)


def _index(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    columns = lacking.columns(statement.relation.schemaname, statement.relation.relname)
    if columns and names_column(statement, columns):
        removed.parts.append(RemovedPart("index", statement.idxname))
        removed.is_left = False


def _statistics(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    if _reads_column(statement, lacking):
        removed.parts.append(RemovedPart("statistics", texts(statement.defnames)[-1]))
        removed.is_left = False


def _view(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    if _reads_column(statement, lacking):
        removed.parts.append(RemovedPart("view of columns that rules omit", ""))
        removed.is_left = False


def _reads_column(statement: Tree, lacking: Lacking) -> bool:
    """Whether a statement names a column that one of its tables does not have on the target."""
    columns = {
        column
        for node in walk(statement)
        if node.DESCRIPTOR.name == "RangeVar"
        for column in lacking.columns(node.schemaname, node.relname)
    }
    return any(
        node.name in columns
        if node.DESCRIPTOR.name == "StatsElem"
        else node.DESCRIPTOR.name == "ColumnRef" and node.fields[-1].string.sval in columns
        for node in walk(statement)
    )


def _rename(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    if (
        statement.rename_type != _OBJECT.OBJECT_COLUMN
        or statement.relation_type != _OBJECT.OBJECT_TABLE
    ):
        return
    relation = statement.relation
    columns = lacking.columns(relation.schemaname, relation.relname)
    old, new = statement.subname, statement.newname
    if old in columns and new in columns:
        removed.parts.append(RemovedPart("column", new))
        removed.is_left = False
    elif old in columns:
        message = f"column {quoted_names(old)} is not on the target, and gets a name that is"
        raise ColumnNeededError(message)
    elif new in columns:
        removed.parts.append(RemovedPart("column", new))
        removed.renamed = old
        removed.is_left = False


def _comment(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    names = texts(statement.object.list.items)
    if statement.objtype == _OBJECT.OBJECT_COLUMN and _is_omitted(names, lacking):
        removed.is_left = False


def _sequence(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    """Take out which column a sequence belongs to."""

    def is_kept(node: Tree) -> bool:
        option = node.def_elem
        names = texts(option.arg.list.items)
        return option.defname != "owned_by" or not _is_omitted(names, lacking)

    count = len(statement.options)
    keep_nodes(statement.options, is_kept)
    is_alter = statement.DESCRIPTOR.name == "AlterSeqStmt"
    removed.is_left = not is_alter or not count or len(statement.options) > 0


def _is_omitted(names: list[str], lacking: Lacking) -> bool:
    """Whether a qualified name is that of a column that is omitted."""
    *schema, table, column = names if len(names) > 1 else ["", *names]
    return column in lacking.columns(schema[-1] if len(names) >= _QUALIFIED else "", table)


def _grant(statement: Tree, lacking: Lacking, removed: Removed) -> None:
    tables = [node.range_var for node in statement.objects if node.HasField("range_var")]
    columns = {
        name for table in tables for name in lacking.columns(table.schemaname, table.relname)
    }

    def is_kept(node: Tree) -> bool:
        given = node.access_priv.cols
        had = len(given)
        keep_nodes(given, lambda name: name.string.sval not in columns)
        return not had or len(given) > 0

    had = len(statement.privileges)
    keep_nodes(statement.privileges, is_kept)
    removed.is_left = not had or len(statement.privileges) > 0


_HANDLERS: Mapping[str, Callable[[Tree, Lacking, Removed], None]] = {
    "AlterSeqStmt": _sequence,
    "AlterTableStmt": _alter_table,
    "CommentStmt": _comment,
    "CreateSchemaStmt": _create_schema,
    "CreateSeqStmt": _sequence,
    "CreateStatsStmt": _statistics,
    "CreateStmt": _create_table,
    "CreateTableAsStmt": _view,
    "GrantStmt": _grant,
    "IndexStmt": _index,
    "RenameStmt": _rename,
    "ViewStmt": _view,
}
