"""Make of a statement what can be done on the target, by the facts that the source reported. Pure.

Foreign keys to tables that are not replicated are taken out, and a DROP names exactly what was
dropped, in the schemas where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.statement.subject import renamed_schema
from pgrepl.ddl_capture.decode.event import DroppedObject
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.syntax.nodes import keep_nodes
from pgrepl.syntax.parse import Tree, parse_one, walk
from pgrepl.syntax.statement_kinds import statement_of

__all__ = [
    "check_bounds",
    "drop_left",
    "has_cascade",
    "keep_elements",
    "make_create_as",
    "mentioned_schemas",
    "remove_foreign_keys",
    "rewrite_drop",
    "set_bounds",
    "split_sequence",
]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_OBJECT = pg_query_pb2.ObjectType
_CASCADE = pg_query_pb2.DropBehavior.DROP_CASCADE
_BY_NAME = frozenset({_AT.AT_ValidateConstraint, _AT.AT_AlterConstraint})

#: What a DROP of a kind calls it, as the source's catalogue calls it.
_DROPPED: Mapping[int, str] = {
    _OBJECT.OBJECT_COLLATION: "collation",
    _OBJECT.OBJECT_DOMAIN: "type",
    _OBJECT.OBJECT_INDEX: "index",
    _OBJECT.OBJECT_SCHEMA: "schema",
    _OBJECT.OBJECT_SEQUENCE: "sequence",
    _OBJECT.OBJECT_STATISTIC_EXT: "statistics object",
    _OBJECT.OBJECT_TABLE: "table",
    _OBJECT.OBJECT_TYPE: "type",
    _OBJECT.OBJECT_VIEW: "view",
}


def make_create_as(tree: Tree) -> Tree:
    """Return ``SELECT INTO`` as the ``CREATE TABLE AS`` that it is; others as they are."""
    kind, statement = statement_of(tree)
    if kind != "SelectStmt" or not statement.HasField("into_clause"):
        return tree
    made = type(tree)()
    made.create_table_as_stmt.query.select_stmt.CopyFrom(statement)
    made.create_table_as_stmt.query.select_stmt.ClearField("into_clause")
    made.create_table_as_stmt.into.CopyFrom(statement.into_clause)
    made.create_table_as_stmt.objtype = _OBJECT.OBJECT_TABLE
    return made


def mentioned_schemas(tree: Tree) -> set[str]:
    """Return the schemas that a statement names where a table or a schema is named."""
    found: set[str] = set()
    for part in walk(tree):
        kind = part.DESCRIPTOR.name
        if kind in ("RangeVar", "CreateSchemaStmt"):
            found.add(part.schemaname)
        elif kind == "AlterObjectSchemaStmt":
            found.add(part.newschema)
    return (found | set(renamed_schema(tree) or ())) - {""}


def keep_elements(tree: Tree, names: Collection[str]) -> None:
    """Keep of the tables that a CREATE SCHEMA makes those of these names."""
    kind, statement = statement_of(tree)
    if kind == "CreateSchemaStmt":
        keep_nodes(
            statement.schema_elts,
            lambda node: (
                not node.HasField("create_stmt") or node.create_stmt.relation.relname in names
            ),
        )


def split_sequence(tree: Tree) -> list[Tree]:
    """Return the CREATE of a sequence, and what ties it to a column, one after the other.

    In between it gets the owner of the table, which it must have.
    """
    kind, statement = statement_of(tree)
    options = statement.options if kind == "CreateSeqStmt" else ()
    owned = [node for node in options if node.def_elem.defname == "owned_by"]
    if not owned:
        return [tree]
    alter = type(tree)()
    alter.alter_seq_stmt.sequence.CopyFrom(statement.sequence)
    alter.alter_seq_stmt.options.extend(owned)
    keep_nodes(statement.options, lambda node: node.def_elem.defname != "owned_by")
    return [tree, alter]


def has_cascade(tree: Tree) -> bool:
    """Whether a statement may take along what depends on its subject."""
    return any(
        getattr(part, "behavior", None) == _CASCADE
        for part in walk(tree)
        if "behavior" in part.DESCRIPTOR.fields_by_name
    )


def remove_foreign_keys(
    tree: Tree,
    tables: Iterable[TableDefinition],
    is_replicated: Callable[[TableName], bool],
) -> bool:
    """Take out foreign keys to tables that are not replicated; False when nothing is left."""
    names: set[str] = set()
    others: set[TableName] = set()
    for table in tables:
        for constraint in table.constraints:
            if constraint.references and not is_replicated(constraint.references):
                names.add(constraint.name)
                others.add(constraint.references)
    if not names:
        return True
    kind, statement = statement_of(tree)
    if kind == "CreateStmt":
        keep_nodes(statement.table_elts, lambda node: not _refers(node.constraint, others))
        for node in statement.table_elts:
            _remove_from_column(node.column_def, others)
    elif kind == "AlterTableStmt":
        keep_nodes(statement.cmds, lambda node: not _is_about(node.alter_table_cmd, names, others))
        for node in statement.cmds:
            _remove_from_column(getattr(node.alter_table_cmd, "def").column_def, others)
        return len(statement.cmds) > 0
    return True


def _is_about(command: Tree, names: Collection[str], others: Collection[TableName]) -> bool:
    if command.subtype == _AT.AT_AddConstraint:
        return _refers(getattr(command, "def").constraint, others)
    return command.subtype in _BY_NAME and _constraint_name(command) in names


def _constraint_name(command: Tree) -> str:
    return str(command.name or getattr(command, "def").constraint.conname)


def _remove_from_column(column: Tree, others: Collection[TableName]) -> None:
    keep_nodes(column.constraints, lambda node: not _refers(node.constraint, others))


def _refers(constraint: Tree, others: Collection[TableName]) -> bool:
    if constraint.contype != _CON.CONSTR_FOREIGN:
        return False
    table = constraint.pktable
    return any(
        table.relname == name and table.schemaname in ("", schema) for schema, name in others
    )


#: What a DROP OWNED drops of what may be on the target: first what builds on others.
_OWNED = (
    _OBJECT.OBJECT_STATISTIC_EXT,
    _OBJECT.OBJECT_TABLE,
    _OBJECT.OBJECT_SEQUENCE,
    _OBJECT.OBJECT_TYPE,
    _OBJECT.OBJECT_COLLATION,
    _OBJECT.OBJECT_SCHEMA,
)

#: What the bounds of a partition are made of where nothing is computed.
_CONSTANT = frozenset(
    {
        *("A_Const", "BitString", "Boolean", "ColumnRef", "Float", "Integer", "Node"),
        *("PartitionBoundSpec", "String"),
    }
)


def set_bounds(tree: Tree, tables: Iterable[TableDefinition]) -> None:
    """Give a partition the bounds that the source computed, unless they are constants anyway."""
    for relation, bound in _bounds(tree):
        if all(part.DESCRIPTOR.name in _CONSTANT for part in walk(bound)):
            continue
        for table in tables:
            is_it = table.name == relation.relname and relation.schemaname in ("", table.schema)
            if is_it and table.bound:
                made = parse_one(f"create table x partition of y {table.bound}")
                bound.CopyFrom(made.create_stmt.partbound)


def check_bounds(tree: Tree) -> None:
    """Refuse bounds of a partition that are computed: PostgreSQL prints constants.

    Raises
    ------
    RefusedError
        when they are not constants, cast to a type at most.

    """
    for bound in walk(tree):
        if bound.DESCRIPTOR.name != "PartitionBoundSpec":
            continue
        for node in (*bound.listdatums, *bound.lowerdatums, *bound.upperdatums):
            if not node.HasField("column_ref") and not _is_number_or_constant(node):
                message = "the bounds of a partition are computed"
                raise RefusedError(message)


def _is_number_or_constant(node: Tree) -> bool:
    is_signed = node.HasField("a_expr") and not node.a_expr.HasField("lexpr")
    if is_signed and [part.string.sval for part in node.a_expr.name] in (["-"], ["+"]):
        return bool(node.a_expr.rexpr.HasField("a_const"))
    while node.HasField("type_cast"):
        node = node.type_cast.arg
    return bool(node.HasField("a_const"))


def _bounds(tree: Tree) -> list[tuple[Tree, Tree]]:
    """Return the partitions that a statement makes or attaches, with their bounds."""
    kind, statement = statement_of(tree)
    bounds = []
    if kind == "CreateStmt" and statement.HasField("partbound"):
        bounds.append((statement.relation, statement.partbound))
    elif kind == "AlterTableStmt":
        for node in statement.cmds:
            partition = getattr(node.alter_table_cmd, "def").partition_cmd
            if partition.HasField("bound"):
                bounds.append((partition.name, partition.bound))
    return bounds


def rewrite_drop(
    tree: Tree, dropped: Iterable[DroppedObject], schemas: Collection[str]
) -> list[Tree]:
    """Return the DROPs of what was dropped in schemas that are replicated."""
    kind, statement = statement_of(tree)
    originals = [item for item in dropped if item.is_original]
    if kind == "DropOwnedStmt":
        drops = [_make_drop(what, originals, schemas, statement.behavior) for what in _OWNED]
        return [drop for drop in drops if drop is not None]
    if statement.remove_type not in _DROPPED:
        return [tree]
    drop = _make_drop(statement.remove_type, originals, schemas, statement.behavior)
    return [] if drop is None else [drop]


def drop_left(
    dropped: Iterable[DroppedObject], schemas: Mapping[str, str], there: Collection[TableName]
) -> Tree | None:
    """Return the DROP of tables that a command took along and the target still has."""
    left = [item for item in dropped if (schemas.get(item.schema or ""), item.names[-1]) in there]
    return _make_drop(_OBJECT.OBJECT_TABLE, left, schemas, _CASCADE)


def _make_drop(
    what: int, dropped: Iterable[DroppedObject], schemas: Collection[str], behavior: int
) -> Tree | None:
    made = pg_query_pb2.Node()
    statement = made.drop_stmt
    statement.remove_type = what
    statement.behavior = behavior
    statement.missing_ok = True
    for item in dropped:
        if item.type != _DROPPED[what]:
            continue
        if what == _OBJECT.OBJECT_SCHEMA:
            if item.names[0] in schemas:
                statement.objects.add().string.sval = item.names[0]
        elif item.schema in schemas:
            node = statement.objects.add()
            if what in (_OBJECT.OBJECT_TYPE, _OBJECT.OBJECT_DOMAIN):
                select = parse_one(f"select null::{item.identity}")
                target = select.select_stmt.target_list[0].res_target.val.type_cast.type_name
                node.type_name.CopyFrom(target)
            else:
                for name in item.names:
                    node.list.items.add().string.sval = name
    return made if len(statement.objects) else None
