"""Which statements fire event triggers, and under which command tag. Pure.

After PostgreSQL's ``CreateCommandTag`` and ``ProcessUtilitySlow``. What is in no list here fires
none: queries, transaction control, roles, databases, settings, COPY, VACUUM and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree

__all__ = ["command_tag", "statement_of"]

_OBJECT = pg_query_pb2.ObjectType

#: How PostgreSQL calls a kind of object in a tag.
_NAMES: Mapping[int, str] = {
    _OBJECT.OBJECT_ACCESS_METHOD: "ACCESS METHOD",
    _OBJECT.OBJECT_AGGREGATE: "AGGREGATE",
    _OBJECT.OBJECT_ATTRIBUTE: "TYPE",
    _OBJECT.OBJECT_CAST: "CAST",
    _OBJECT.OBJECT_COLLATION: "COLLATION",
    _OBJECT.OBJECT_COLUMN: "TABLE",
    _OBJECT.OBJECT_CONVERSION: "CONVERSION",
    _OBJECT.OBJECT_DOMAIN: "DOMAIN",
    _OBJECT.OBJECT_DOMCONSTRAINT: "DOMAIN",
    _OBJECT.OBJECT_EXTENSION: "EXTENSION",
    _OBJECT.OBJECT_FDW: "FOREIGN DATA WRAPPER",
    _OBJECT.OBJECT_FOREIGN_SERVER: "SERVER",
    _OBJECT.OBJECT_FOREIGN_TABLE: "FOREIGN TABLE",
    _OBJECT.OBJECT_FUNCTION: "FUNCTION",
    _OBJECT.OBJECT_INDEX: "INDEX",
    _OBJECT.OBJECT_LANGUAGE: "LANGUAGE",
    _OBJECT.OBJECT_LARGEOBJECT: "LARGE OBJECT",
    _OBJECT.OBJECT_MATVIEW: "MATERIALIZED VIEW",
    _OBJECT.OBJECT_OPCLASS: "OPERATOR CLASS",
    _OBJECT.OBJECT_OPERATOR: "OPERATOR",
    _OBJECT.OBJECT_OPFAMILY: "OPERATOR FAMILY",
    _OBJECT.OBJECT_POLICY: "POLICY",
    _OBJECT.OBJECT_PROCEDURE: "PROCEDURE",
    _OBJECT.OBJECT_PUBLICATION: "PUBLICATION",
    _OBJECT.OBJECT_ROUTINE: "ROUTINE",
    _OBJECT.OBJECT_RULE: "RULE",
    _OBJECT.OBJECT_SCHEMA: "SCHEMA",
    _OBJECT.OBJECT_SEQUENCE: "SEQUENCE",
    _OBJECT.OBJECT_STATISTIC_EXT: "STATISTICS",
    _OBJECT.OBJECT_SUBSCRIPTION: "SUBSCRIPTION",
    _OBJECT.OBJECT_TABCONSTRAINT: "TABLE",
    _OBJECT.OBJECT_TABLE: "TABLE",
    _OBJECT.OBJECT_TRANSFORM: "TRANSFORM",
    _OBJECT.OBJECT_TRIGGER: "TRIGGER",
    _OBJECT.OBJECT_TSCONFIGURATION: "TEXT SEARCH CONFIGURATION",
    _OBJECT.OBJECT_TSDICTIONARY: "TEXT SEARCH DICTIONARY",
    _OBJECT.OBJECT_TSPARSER: "TEXT SEARCH PARSER",
    _OBJECT.OBJECT_TSTEMPLATE: "TEXT SEARCH TEMPLATE",
    _OBJECT.OBJECT_TYPE: "TYPE",
    _OBJECT.OBJECT_VIEW: "VIEW",
}
#: Objects of the whole cluster, whose statements fire nothing.
_SHARED = frozenset(
    {
        _OBJECT.OBJECT_DATABASE,
        _OBJECT.OBJECT_EVENT_TRIGGER,
        _OBJECT.OBJECT_PARAMETER_ACL,
        _OBJECT.OBJECT_ROLE,
        _OBJECT.OBJECT_TABLESPACE,
    }
)

_FIXED: Mapping[str, str] = {
    "AlterCollationStmt": "ALTER COLLATION",
    "AlterDefaultPrivilegesStmt": "ALTER DEFAULT PRIVILEGES",
    "AlterDomainStmt": "ALTER DOMAIN",
    "AlterEnumStmt": "ALTER TYPE",
    "AlterExtensionContentsStmt": "ALTER EXTENSION",
    "AlterExtensionStmt": "ALTER EXTENSION",
    "AlterFdwStmt": "ALTER FOREIGN DATA WRAPPER",
    "AlterForeignServerStmt": "ALTER SERVER",
    "AlterOpFamilyStmt": "ALTER OPERATOR FAMILY",
    "AlterOperatorStmt": "ALTER OPERATOR",
    "AlterPolicyStmt": "ALTER POLICY",
    "AlterPublicationStmt": "ALTER PUBLICATION",
    "AlterSeqStmt": "ALTER SEQUENCE",
    "AlterStatsStmt": "ALTER STATISTICS",
    "AlterSubscriptionStmt": "ALTER SUBSCRIPTION",
    "AlterTSConfigurationStmt": "ALTER TEXT SEARCH CONFIGURATION",
    "AlterTSDictionaryStmt": "ALTER TEXT SEARCH DICTIONARY",
    "AlterTypeStmt": "ALTER TYPE",
    "AlterUserMappingStmt": "ALTER USER MAPPING",
    "CommentStmt": "COMMENT",
    "CompositeTypeStmt": "CREATE TYPE",
    "CreateAmStmt": "CREATE ACCESS METHOD",
    "CreateCastStmt": "CREATE CAST",
    "CreateConversionStmt": "CREATE CONVERSION",
    "CreateDomainStmt": "CREATE DOMAIN",
    "CreateEnumStmt": "CREATE TYPE",
    "CreateExtensionStmt": "CREATE EXTENSION",
    "CreateFdwStmt": "CREATE FOREIGN DATA WRAPPER",
    "CreateForeignServerStmt": "CREATE SERVER",
    "CreateForeignTableStmt": "CREATE FOREIGN TABLE",
    "CreateOpClassStmt": "CREATE OPERATOR CLASS",
    "CreateOpFamilyStmt": "CREATE OPERATOR FAMILY",
    "CreatePLangStmt": "CREATE LANGUAGE",
    "CreatePolicyStmt": "CREATE POLICY",
    "CreatePublicationStmt": "CREATE PUBLICATION",
    "CreateRangeStmt": "CREATE TYPE",
    "CreateSchemaStmt": "CREATE SCHEMA",
    "CreateSeqStmt": "CREATE SEQUENCE",
    "CreateStatsStmt": "CREATE STATISTICS",
    "CreateStmt": "CREATE TABLE",
    "CreateSubscriptionStmt": "CREATE SUBSCRIPTION",
    "CreateTransformStmt": "CREATE TRANSFORM",
    "CreateTrigStmt": "CREATE TRIGGER",
    "CreateUserMappingStmt": "CREATE USER MAPPING",
    "DropOwnedStmt": "DROP OWNED",
    "DropSubscriptionStmt": "DROP SUBSCRIPTION",
    "DropUserMappingStmt": "DROP USER MAPPING",
    "ImportForeignSchemaStmt": "IMPORT FOREIGN SCHEMA",
    "IndexStmt": "CREATE INDEX",
    "RefreshMatViewStmt": "REFRESH MATERIALIZED VIEW",
    "RuleStmt": "CREATE RULE",
    "SecLabelStmt": "SECURITY LABEL",
    "ViewStmt": "CREATE VIEW",
}

#: The field that says what kind of object an ALTER or DROP is about.
_BY_OBJECT: Mapping[str, tuple[str, str]] = {
    "AlterFunctionStmt": ("ALTER", "objtype"),
    "AlterObjectDependsStmt": ("ALTER", "object_type"),
    "AlterObjectSchemaStmt": ("ALTER", "object_type"),
    "AlterOwnerStmt": ("ALTER", "object_type"),
    "AlterTableMoveAllStmt": ("ALTER", "objtype"),
    "AlterTableStmt": ("ALTER", "objtype"),
    "DefineStmt": ("CREATE", "kind"),
    "DropStmt": ("DROP", "remove_type"),
}


def statement_of(tree: Tree) -> tuple[str, Tree]:
    """Return the kind of a statement, as PostgreSQL's source calls it, and the statement."""
    field = tree.WhichOneof("node")
    statement = getattr(tree, field)
    return statement.DESCRIPTOR.name, statement


def command_tag(tree: Tree) -> str | None:
    """Return the tag of a statement that fires event triggers; None when it fires none."""
    kind, statement = statement_of(tree)
    if kind in _FIXED:
        if kind in ("CommentStmt", "SecLabelStmt") and statement.objtype in _SHARED:
            return None
        return _FIXED[kind]
    if kind in _BY_OBJECT:
        verb, field = _BY_OBJECT[kind]
        name = _NAMES.get(getattr(statement, field))
        return None if name is None else f"{verb} {name}"
    return _OTHERS[kind](statement) if kind in _OTHERS else None


def _create_as(statement: Tree) -> str:
    if statement.objtype == _OBJECT.OBJECT_MATVIEW:
        return "CREATE MATERIALIZED VIEW"
    return "SELECT INTO" if statement.is_select_into else "CREATE TABLE AS"


def _grant(statement: Tree) -> str | None:
    if statement.objtype in _SHARED:
        return None
    return "GRANT" if statement.is_grant else "REVOKE"


def _rename(statement: Tree) -> str | None:
    kind = statement.rename_type
    # A column, attribute or constraint belongs to what it is renamed on.
    if kind in (_OBJECT.OBJECT_COLUMN, _OBJECT.OBJECT_ATTRIBUTE):
        kind = statement.relation_type
    name = _NAMES.get(kind)
    return None if name is None else f"ALTER {name}"


_OTHERS: Mapping[str, Callable[[Tree], str | None]] = {
    "CreateFunctionStmt": lambda s: "CREATE PROCEDURE" if s.is_procedure else "CREATE FUNCTION",
    "CreateTableAsStmt": _create_as,
    "GrantStmt": _grant,
    "RenameStmt": _rename,
    "SelectStmt": lambda s: "SELECT INTO" if s.HasField("into_clause") else None,
}
