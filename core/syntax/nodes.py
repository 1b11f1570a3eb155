"""Where names of schemas stand in PostgreSQL's parse trees, besides its ``RangeVar``.

Most nodes hold a qualified name as a list of strings; statements about any kind of object say by an
``ObjectType`` what their ``object`` is. Found by remapping the DDL of every object kind and
comparing what the target's catalogue shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree

__all__ = [
    "NAME_LISTS",
    "OBJECT_FIELDS",
    "REG_TYPES",
    "definition_of",
    "keep_nodes",
    "remap_object",
    "texts",
]

#: The fields that are lists of names with the schema first.
NAME_LISTS: Mapping[str, tuple[str, ...]] = {
    "A_Expr": ("name",),
    "AlterCollationStmt": ("collname",),
    "AlterDomainStmt": ("type_name",),
    "AlterEnumStmt": ("type_name",),
    "AlterOpFamilyStmt": ("opfamilyname",),
    "AlterStatsStmt": ("defnames",),
    "AlterTSConfigurationStmt": ("cfgname",),
    "AlterTSDictionaryStmt": ("dictname",),
    "AlterTypeStmt": ("type_name",),
    "CollateClause": ("collname",),
    "ColumnRef": ("fields",),
    "CreateConversionStmt": ("conversion_name", "func_name"),
    "CreateDomainStmt": ("domainname",),
    "CreateEnumStmt": ("type_name",),
    "CreateEventTrigStmt": ("funcname",),
    "CreateFunctionStmt": ("funcname",),
    "CreateOpClassItem": ("order_family",),
    "CreateOpClassStmt": ("opclassname", "opfamilyname"),
    "CreateOpFamilyStmt": ("opfamilyname",),
    "CreateRangeStmt": ("type_name",),
    "CreateStatsStmt": ("defnames",),
    "CreateTrigStmt": ("funcname",),
    "DefineStmt": ("defnames",),
    "FuncCall": ("funcname",),
    "IndexElem": ("collation", "opclass"),
    "ObjectWithArgs": ("objname",),
    "PartitionElem": ("collation", "opclass"),
    "SortBy": ("use_op",),
    "SubLink": ("oper_name",),
    "TypeName": ("names",),
}

#: Statements about an object of any kind: the fields with its kind and with itself.
OBJECT_FIELDS: Mapping[str, tuple[str, str]] = {
    "AlterExtensionContentsStmt": ("objtype", "object"),
    "AlterObjectDependsStmt": ("object_type", "object"),
    "AlterObjectSchemaStmt": ("object_type", "object"),
    "AlterOwnerStmt": ("object_type", "object"),
    "CommentStmt": ("objtype", "object"),
    "DropStmt": ("remove_type", "objects"),
    "GrantStmt": ("objtype", "objects"),
    "RenameStmt": ("rename_type", "object"),
    "SecLabelStmt": ("objtype", "object"),
}

#: Types whose text is the name of an object.
REG_TYPES = frozenset(
    {
        "regclass",
        "regcollation",
        "regconfig",
        "regdictionary",
        "regnamespace",
        "regoper",
        "regoperator",
        "regproc",
        "regprocedure",
        "regtype",
    }
)

_KIND = pg_query_pb2.ObjectType
# Objects of a table are named by three: schema, table, and their own name.
_OF_A_TABLE = frozenset(
    {
        _KIND.OBJECT_COLUMN,
        _KIND.OBJECT_POLICY,
        _KIND.OBJECT_RULE,
        _KIND.OBJECT_TABCONSTRAINT,
        _KIND.OBJECT_TRIGGER,
    }
)
# The access method comes first.
_OF_AN_ACCESS_METHOD = frozenset({_KIND.OBJECT_OPCLASS, _KIND.OBJECT_OPFAMILY})


def definition_of(command: Tree) -> Tree:
    """Return what a command of ALTER brings; its field is called "def", a word of Python."""
    return getattr(command, "def")


def texts(nodes: Tree) -> list[str]:
    """Return the strings of a list of names; what is no string is an empty one."""
    return [node.string.sval for node in nodes]


def keep_nodes(nodes: Tree, is_kept: Callable[[Tree], bool]) -> None:
    """Take nodes out of a list that are not to be kept."""
    kept = [type(node).FromString(node.SerializeToString()) for node in nodes if is_kept(node)]
    if len(kept) != len(nodes):
        del nodes[:]
        nodes.extend(kept)


def remap_object(
    statement: Tree,
    rename_list: Callable[[Tree, int], None],
    rename_schema: Callable[[str], str],
) -> None:
    """Rename the schema of the object that a statement is about."""
    name = statement.DESCRIPTOR.name
    kind_field, object_field = OBJECT_FIELDS[name]
    kind = getattr(statement, kind_field)
    if name == "GrantStmt" and statement.targtype == pg_query_pb2.ACL_TARGET_ALL_IN_SCHEMA:
        kind = _KIND.OBJECT_SCHEMA
    if name == "RenameStmt" and kind == _KIND.OBJECT_SCHEMA:
        statement.subname = rename_schema(statement.subname)
        statement.newname = rename_schema(statement.newname)
    value = getattr(statement, object_field)
    for node in value if name in ("DropStmt", "GrantStmt") else (value,):
        _remap_node(node, kind, rename_list, rename_schema)


def _remap_node(
    node: Tree,
    kind: int,
    rename_list: Callable[[Tree, int], None],
    rename_schema: Callable[[str], str],
) -> None:
    if kind == _KIND.OBJECT_SCHEMA and node.HasField("string"):
        node.string.sval = rename_schema(node.string.sval)
    elif node.HasField("list"):
        items = node.list.items
        if kind in _OF_A_TABLE:
            rename_list(items, 3)
        elif kind in _OF_AN_ACCESS_METHOD:
            # Index access methods have no schema; the name after theirs does.
            rename_list(items[1:], 2)
        else:
            rename_list(items, 2)
