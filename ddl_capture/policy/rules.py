"""What is applied, what is skipped, and what is refused. Pure; an allow-list that fails closed.

A statement of a kind that is in none of the lists is refused: it stops its source until a person
looks at it. Skipped, by rule and with a line in the history, is what a copy does not have either:
owners, tablespaces, rules, materialized views, what belongs to extensions and foreign servers, and,
unless ``[ddl] include`` names them, views, functions, triggers, grants and policies. Functions,
triggers and policies are code: they need ``trust_code`` of their source as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.config.model import CODE_KINDS
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import object_type_of, statement_of

__all__ = ["Included", "RefusedError", "refine", "skip_reason"]

_OBJECT = pg_query_pb2.ObjectType
_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType


class RefusedError(ValueError):
    """A statement that is never applied as it is."""


@dataclass(frozen=True, slots=True)
class Included:
    """What comes besides tables and what they need."""

    #: ``include`` of ``[ddl]``.
    kinds: Collection[str] = ()
    #: ``trust_code`` of the source.
    is_code_trusted: bool = False

    def __contains__(self, kind: str) -> bool:
        """Whether objects of a kind are applied."""
        return self.reason_against(kind) is None

    def reason_against(self, kind: str) -> str | None:
        """Return why objects of a kind are not applied; None when they are."""
        if kind not in self.kinds:
            return f'{kind} are not in "include" of [ddl]'
        if kind in CODE_KINDS and not self.is_code_trusted:
            return f"{kind} are code, and trust_code of the source is false"
        return None


_APPLIED = frozenset(
    {
        "AlterCollationStmt",
        "AlterDomainStmt",
        "AlterEnumStmt",
        "AlterSeqStmt",
        "AlterStatsStmt",
        "CompositeTypeStmt",
        "CreateDomainStmt",
        "CreateEnumStmt",
        "CreateRangeStmt",
        "CreateSchemaStmt",
        "CreateSeqStmt",
        "CreateStatsStmt",
        "CreateStmt",
        "IndexStmt",
    }
)
_OPTIONAL = {
    "AlterFunctionStmt": "functions",
    "AlterPolicyStmt": "policies",
    "CreateFunctionStmt": "functions",
    "CreatePolicyStmt": "policies",
    "CreateTrigStmt": "triggers",
    "GrantStmt": "grants",
    "ViewStmt": "views",
}
_NEVER: Mapping[str, str] = {
    "AlterDefaultPrivilegesStmt": "default privileges are the source's",
    "AlterExtensionContentsStmt": "extensions are the target's own",
    "AlterExtensionStmt": "extensions are the target's own",
    "AlterFdwStmt": "foreign data is elsewhere",
    "AlterForeignServerStmt": "foreign data is elsewhere",
    "AlterObjectDependsStmt": "extensions are the target's own",
    "AlterOpFamilyStmt": "operators are not replicated",
    "AlterOperatorStmt": "operators are not replicated",
    "AlterOwnerStmt": "owners are the source's",
    "AlterPublicationStmt": "publications are the source's",
    "AlterSubscriptionStmt": "subscriptions are the source's",
    "AlterTSConfigurationStmt": "text search objects are not replicated",
    "AlterTSDictionaryStmt": "text search objects are not replicated",
    "AlterTableMoveAllStmt": "tablespaces are the source's",
    "AlterUserMappingStmt": "foreign data is elsewhere",
    "CreateAmStmt": "access methods are the target's own",
    "CreateCastStmt": "casts are not replicated",
    "CreateConversionStmt": "conversions are not replicated",
    "CreateExtensionStmt": "extensions are the target's own",
    "CreateFdwStmt": "foreign data is elsewhere",
    "CreateForeignServerStmt": "foreign data is elsewhere",
    "CreateForeignTableStmt": "foreign data is elsewhere",
    "CreateOpClassStmt": "operators are not replicated",
    "CreateOpFamilyStmt": "operators are not replicated",
    "CreatePLangStmt": "languages are the target's own",
    "CreatePublicationStmt": "publications are the source's",
    "CreateSubscriptionStmt": "subscriptions are the source's",
    "CreateTransformStmt": "languages are the target's own",
    "CreateUserMappingStmt": "foreign data is elsewhere",
    "DropSubscriptionStmt": "subscriptions are the source's",
    "DropUserMappingStmt": "foreign data is elsewhere",
    "ImportForeignSchemaStmt": "foreign data is elsewhere",
    "RefreshMatViewStmt": "materialized views are not replicated",
    "RuleStmt": "rules are not replicated",
    "SecLabelStmt": "security labels are the source's",
}

#: For statements about an object of any kind: what has to be included; an empty text is nothing.
_OBJECTS: Mapping[int, str] = {
    _OBJECT.OBJECT_AGGREGATE: "functions",
    _OBJECT.OBJECT_ATTRIBUTE: "",
    _OBJECT.OBJECT_COLLATION: "",
    _OBJECT.OBJECT_COLUMN: "",
    _OBJECT.OBJECT_DOMAIN: "",
    _OBJECT.OBJECT_DOMCONSTRAINT: "",
    _OBJECT.OBJECT_FUNCTION: "functions",
    _OBJECT.OBJECT_INDEX: "",
    _OBJECT.OBJECT_POLICY: "policies",
    _OBJECT.OBJECT_PROCEDURE: "functions",
    _OBJECT.OBJECT_ROUTINE: "functions",
    _OBJECT.OBJECT_SCHEMA: "",
    _OBJECT.OBJECT_SEQUENCE: "",
    _OBJECT.OBJECT_STATISTIC_EXT: "",
    _OBJECT.OBJECT_TABCONSTRAINT: "",
    _OBJECT.OBJECT_TABLE: "",
    _OBJECT.OBJECT_TRIGGER: "triggers",
    _OBJECT.OBJECT_TYPE: "",
    _OBJECT.OBJECT_VIEW: "views",
}
_BY_OBJECT = frozenset(
    {"AlterObjectSchemaStmt", "AlterTableStmt", "CommentStmt", "DropStmt", "RenameStmt"}
)

_ALTER_APPLIED = frozenset(
    {
        _AT.AT_AddColumn,
        _AT.AT_ColumnDefault,
        _AT.AT_DropNotNull,
        _AT.AT_SetNotNull,
        _AT.AT_SetExpression,
        _AT.AT_DropExpression,
        _AT.AT_SetStatistics,
        _AT.AT_SetOptions,
        _AT.AT_ResetOptions,
        _AT.AT_SetStorage,
        _AT.AT_SetCompression,
        _AT.AT_DropColumn,
        _AT.AT_AddConstraint,
        _AT.AT_AlterConstraint,
        _AT.AT_ValidateConstraint,
        _AT.AT_DropConstraint,
        _AT.AT_AlterColumnType,
        _AT.AT_SetLogged,
        _AT.AT_SetUnLogged,
        _AT.AT_SetRelOptions,
        _AT.AT_ResetRelOptions,
        _AT.AT_AddInherit,
        _AT.AT_DropInherit,
        _AT.AT_AddOf,
        _AT.AT_DropOf,
        _AT.AT_ReplicaIdentity,
        _AT.AT_AttachPartition,
        _AT.AT_DetachPartition,
        _AT.AT_AddIdentity,
        _AT.AT_SetIdentity,
        _AT.AT_DropIdentity,
    }
)
# Triggers and rules that fire during replay would run the source's code with replay's rights, and
# forced row security would hide rows from it.
_ALTER_LEFT_OUT = frozenset(
    {
        _AT.AT_ChangeOwner,
        _AT.AT_ClusterOn,
        _AT.AT_DropCluster,
        _AT.AT_DetachPartitionFinalize,
        _AT.AT_DisableRule,
        _AT.AT_DisableTrig,
        _AT.AT_DisableTrigAll,
        _AT.AT_DisableTrigUser,
        _AT.AT_DropOids,
        _AT.AT_EnableAlwaysRule,
        _AT.AT_EnableAlwaysTrig,
        _AT.AT_EnableReplicaRule,
        _AT.AT_EnableReplicaTrig,
        _AT.AT_EnableRule,
        _AT.AT_EnableTrig,
        _AT.AT_EnableTrigAll,
        _AT.AT_EnableTrigUser,
        _AT.AT_ForceRowSecurity,
        _AT.AT_NoForceRowSecurity,
        _AT.AT_SetAccessMethod,
        _AT.AT_SetTableSpace,
    }
)
_ALTER_POLICIES = frozenset({_AT.AT_EnableRowSecurity, _AT.AT_DisableRowSecurity})

_TRUSTED_LANGUAGES = frozenset({"sql", "plpgsql"})
_FUNCTION_OPTIONS = frozenset(
    {
        *("as", "cost", "language", "leakproof", "parallel", "rows", "set", "strict", "support"),
        *("security", "volatility", "window"),
    }
)


def skip_reason(tree: Tree, include: Included) -> str | None:
    """Return why a statement is skipped; None when it is to be applied.

    Raises
    ------
    RefusedError
        when it is of a kind that no rule knows.

    """
    kind, statement = statement_of(tree)
    if kind in _APPLIED:
        return None
    if kind in _NEVER:
        return _NEVER[kind]
    if kind in _OPTIONAL:
        return include.reason_against(_OPTIONAL[kind])
    if kind in _BY_OBJECT:
        wanted = _OBJECTS.get(object_type_of(kind, statement))
        if wanted is None:
            return "objects of this kind are not replicated"
        return include.reason_against(wanted) if wanted else None
    return _other_skip_reason(kind, statement)


def _other_skip_reason(kind: str, statement: Tree) -> str | None:
    if kind == "AlterTypeStmt":
        return "properties of base types are the source's"
    if kind == "DefineStmt":
        return None if statement.kind == _OBJECT.OBJECT_COLLATION else "it is not replicated"
    if kind == "DropOwnedStmt":
        return None
    if kind == "CreateTableAsStmt":
        is_view = statement.objtype == _OBJECT.OBJECT_MATVIEW
        return "materialized views are not replicated" if is_view else None
    raise RefusedError(f"a {kind} is never applied")


def refine(tree: Tree, include: Included) -> str | None:
    """Take out of a statement what is never applied; return a reason when nothing is left.

    Raises
    ------
    RefusedError
        when it holds what must not run on the target.

    """
    kind, statement = statement_of(tree)
    if kind in _REFINERS:
        return _REFINERS[kind](statement, include)
    return None


def _refine_alter(statement: Tree, include: Included) -> str | None:
    kept = []
    for node in statement.cmds:
        command = node.alter_table_cmd
        if command.subtype in _ALTER_LEFT_OUT:
            continue
        if command.subtype in _ALTER_POLICIES:
            if "policies" not in include:
                continue
        elif command.subtype not in _ALTER_APPLIED:
            raise RefusedError(f"{_AT.Name(command.subtype)} is never applied")
        if command.subtype in (_AT.AT_DropConstraint, _AT.AT_DropExpression):
            # A foreign key to a table that is not replicated is not there, nor is what calls code.
            command.missing_ok = True
        definition = getattr(command, "def")
        if definition.HasField("partition_cmd"):
            definition.partition_cmd.concurrent = False
        if definition.HasField("constraint"):
            definition.constraint.indexspace = ""
        kept.append(node)
    if not kept:
        return "owners, tablespaces, triggers, rules and row security are the source's"
    copies = [type(node).FromString(node.SerializeToString()) for node in kept]
    del statement.cmds[:]
    statement.cmds.extend(copies)
    return None


def _refine_create(statement: Tree, _: Included) -> str | None:
    statement.tablespacename = ""
    statement.access_method = ""
    for node in statement.table_elts:
        if node.HasField("constraint"):
            node.constraint.indexspace = ""
        for inner in node.column_def.constraints:
            inner.constraint.indexspace = ""
    return None


def _refine_index(statement: Tree, _: Included) -> str | None:
    statement.concurrent = False
    statement.table_space = ""
    return None


def _refine_schema(statement: Tree, include: Included) -> str | None:
    statement.ClearField("authrole")
    kept = [
        type(node).FromString(node.SerializeToString())
        for node in statement.schema_elts
        if skip_reason(node, include) is None and refine(node, include) is None
    ]
    del statement.schema_elts[:]
    statement.schema_elts.extend(kept)
    return None


def _refine_function(statement: Tree, _: Included) -> str | None:
    options = [node.def_elem for node in statement.options]
    language = next(
        (option.arg.string.sval.lower() for option in options if option.defname == "language"),
        "sql",
    )
    if language not in _TRUSTED_LANGUAGES:
        raise RefusedError(f'functions in language "{language}" are never applied')
    _check_function_options(options)
    return None


def _refine_alter_function(statement: Tree, _: Included) -> str | None:
    _check_function_options([node.def_elem for node in statement.actions])
    return None


def _check_function_options(options: list[Tree]) -> None:
    for option in options:
        if option.defname not in _FUNCTION_OPTIONS or option.defname in ("leakproof", "support"):
            raise RefusedError(f'functions with option "{option.defname}" are never applied')
        if option.defname == "security" and option.arg.boolean.boolval:
            raise RefusedError("functions with SECURITY DEFINER are never applied")
        if option.defname == "set" and option.arg.variable_set_stmt.name != "search_path":
            raise RefusedError("functions that change settings are never applied")


def _refine_grant(statement: Tree, _: Included) -> str | None:
    if statement.objtype not in _OBJECTS:
        return "privileges on objects of this kind are the source's"
    if statement.grant_option:
        raise RefusedError("privileges WITH GRANT OPTION are never applied")
    statement.ClearField("grantor")
    return None


def _refine_drop(statement: Tree, _: Included) -> str | None:
    statement.concurrent = False
    statement.missing_ok = True
    return None


_REFINERS = {
    "AlterFunctionStmt": _refine_alter_function,
    "AlterTableStmt": _refine_alter,
    "CreateFunctionStmt": _refine_function,
    "CreateSchemaStmt": _refine_schema,
    "CreateStmt": _refine_create,
    "DropStmt": _refine_drop,
    "GrantStmt": _refine_grant,
    "IndexStmt": _refine_index,
}
