"""The kinds of statements and of objects, each once: what PostgreSQL calls them, what they name.

A kind is called as PostgreSQL's source calls it (``CreateStmt``). Which kinds are copied or applied
is said where that is decided: ``basebackup.schema.skipped`` and ``ddl_capture.policy.rules``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree

__all__ = [
    "OBJECT_KINDS",
    "STATEMENT_KINDS",
    "ObjectKind",
    "StatementKind",
    "object_type_of",
    "statement_of",
]

_OBJECT = pg_query_pb2.ObjectType


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object, for statements about objects of any kind."""

    #: What PostgreSQL calls it in a command tag.
    tag: str
    #: The catalogue that it is in by schema and name, of those that a table may need.
    catalog: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """A kind of statement that is DDL."""

    #: Its command tag; None: more of the statement tells.
    tag: str | None = None
    #: The verb of its tag, when the rest is what it is about.
    verb: str | None = None
    #: Where its subject is named, as a relation or as a list of names.
    relation: str | None = None
    names: str | None = None
    #: The catalogue of the subject; None: its object type tells.
    catalog: str | None = None
    #: The field that says what kind of object it is about.
    object_type: str | None = None
    #: Whether it stands in dumps with a subject that is to be read.
    is_dumped: bool = False

    def relation_in(self, statement: Tree) -> Tree | None:
        """Return the relation that is the subject of a statement; None: it is none."""
        return None if self.relation is None else attrgetter(self.relation)(statement)

    def names_in(self, statement: Tree) -> Tree | None:
        """Return the list that names the subject of a statement; None: no list does."""
        return None if self.names is None else getattr(statement, self.names)


def statement_of(tree: Tree) -> tuple[str, Tree]:
    """Return the kind of a statement, as PostgreSQL's source calls it, and the statement."""
    field = tree.WhichOneof("node")
    statement = getattr(tree, field)
    return statement.DESCRIPTOR.name, statement


def object_type_of(kind: str, statement: Tree) -> int:
    """Return what a statement is about that has a field for it; of a part, what it is a part of."""
    field = STATEMENT_KINDS[kind].object_type
    if field is None:
        raise ValueError(f"a {kind} does not say what it is about")
    value: int = getattr(statement, field)
    if kind == "RenameStmt" and value in (_OBJECT.OBJECT_COLUMN, _OBJECT.OBJECT_ATTRIBUTE):
        return int(statement.relation_type)
    return value


OBJECT_KINDS: Mapping[int, ObjectKind] = {
    _OBJECT.OBJECT_ACCESS_METHOD: ObjectKind("ACCESS METHOD"),
    _OBJECT.OBJECT_AGGREGATE: ObjectKind("AGGREGATE", "pg_proc"),
    _OBJECT.OBJECT_ATTRIBUTE: ObjectKind("TYPE"),
    _OBJECT.OBJECT_CAST: ObjectKind("CAST"),
    _OBJECT.OBJECT_COLLATION: ObjectKind("COLLATION", "pg_collation"),
    _OBJECT.OBJECT_COLUMN: ObjectKind("TABLE", "pg_class"),
    _OBJECT.OBJECT_CONVERSION: ObjectKind("CONVERSION"),
    _OBJECT.OBJECT_DOMAIN: ObjectKind("DOMAIN", "pg_type"),
    _OBJECT.OBJECT_DOMCONSTRAINT: ObjectKind("DOMAIN", "pg_type"),
    _OBJECT.OBJECT_EXTENSION: ObjectKind("EXTENSION"),
    _OBJECT.OBJECT_FDW: ObjectKind("FOREIGN DATA WRAPPER"),
    _OBJECT.OBJECT_FOREIGN_SERVER: ObjectKind("SERVER"),
    _OBJECT.OBJECT_FOREIGN_TABLE: ObjectKind("FOREIGN TABLE"),
    _OBJECT.OBJECT_FUNCTION: ObjectKind("FUNCTION", "pg_proc"),
    _OBJECT.OBJECT_INDEX: ObjectKind("INDEX"),
    _OBJECT.OBJECT_LANGUAGE: ObjectKind("LANGUAGE"),
    _OBJECT.OBJECT_LARGEOBJECT: ObjectKind("LARGE OBJECT"),
    _OBJECT.OBJECT_MATVIEW: ObjectKind("MATERIALIZED VIEW", "pg_class"),
    _OBJECT.OBJECT_OPCLASS: ObjectKind("OPERATOR CLASS", "pg_opclass"),
    _OBJECT.OBJECT_OPERATOR: ObjectKind("OPERATOR", "pg_operator"),
    _OBJECT.OBJECT_OPFAMILY: ObjectKind("OPERATOR FAMILY", "pg_opfamily"),
    _OBJECT.OBJECT_POLICY: ObjectKind("POLICY"),
    _OBJECT.OBJECT_PROCEDURE: ObjectKind("PROCEDURE", "pg_proc"),
    _OBJECT.OBJECT_PUBLICATION: ObjectKind("PUBLICATION"),
    _OBJECT.OBJECT_ROUTINE: ObjectKind("ROUTINE"),
    _OBJECT.OBJECT_RULE: ObjectKind("RULE"),
    _OBJECT.OBJECT_SCHEMA: ObjectKind("SCHEMA"),
    _OBJECT.OBJECT_SEQUENCE: ObjectKind("SEQUENCE", "pg_class"),
    _OBJECT.OBJECT_STATISTIC_EXT: ObjectKind("STATISTICS", "pg_statistic_ext"),
    _OBJECT.OBJECT_SUBSCRIPTION: ObjectKind("SUBSCRIPTION"),
    _OBJECT.OBJECT_TABCONSTRAINT: ObjectKind("TABLE", "pg_class"),
    _OBJECT.OBJECT_TABLE: ObjectKind("TABLE", "pg_class"),
    _OBJECT.OBJECT_TRANSFORM: ObjectKind("TRANSFORM"),
    _OBJECT.OBJECT_TRIGGER: ObjectKind("TRIGGER"),
    _OBJECT.OBJECT_TSCONFIGURATION: ObjectKind("TEXT SEARCH CONFIGURATION", "pg_ts_config"),
    _OBJECT.OBJECT_TSDICTIONARY: ObjectKind("TEXT SEARCH DICTIONARY", "pg_ts_dict"),
    _OBJECT.OBJECT_TSPARSER: ObjectKind("TEXT SEARCH PARSER", "pg_ts_parser"),
    _OBJECT.OBJECT_TSTEMPLATE: ObjectKind("TEXT SEARCH TEMPLATE", "pg_ts_template"),
    _OBJECT.OBJECT_TYPE: ObjectKind("TYPE", "pg_type"),
    _OBJECT.OBJECT_VIEW: ObjectKind("VIEW", "pg_class"),
}

STATEMENT_KINDS: Mapping[str, StatementKind] = {
    "AlterCollationStmt": StatementKind(
        tag="ALTER COLLATION", names="collname", catalog="pg_collation"
    ),
    "AlterDefaultPrivilegesStmt": StatementKind(tag="ALTER DEFAULT PRIVILEGES"),
    "AlterDomainStmt": StatementKind(
        tag="ALTER DOMAIN", names="type_name", catalog="pg_type", is_dumped=True
    ),
    "AlterEnumStmt": StatementKind(tag="ALTER TYPE", names="type_name", catalog="pg_type"),
    "AlterExtensionContentsStmt": StatementKind(tag="ALTER EXTENSION"),
    "AlterExtensionStmt": StatementKind(tag="ALTER EXTENSION"),
    "AlterFdwStmt": StatementKind(tag="ALTER FOREIGN DATA WRAPPER"),
    "AlterForeignServerStmt": StatementKind(tag="ALTER SERVER"),
    "AlterFunctionStmt": StatementKind(verb="ALTER", object_type="objtype"),
    "AlterObjectDependsStmt": StatementKind(verb="ALTER", object_type="object_type"),
    "AlterObjectSchemaStmt": StatementKind(verb="ALTER", object_type="object_type"),
    "AlterOpFamilyStmt": StatementKind(
        tag="ALTER OPERATOR FAMILY", names="opfamilyname", catalog="pg_opfamily", is_dumped=True
    ),
    "AlterOperatorStmt": StatementKind(tag="ALTER OPERATOR"),
    "AlterOwnerStmt": StatementKind(verb="ALTER", object_type="object_type"),
    "AlterPolicyStmt": StatementKind(tag="ALTER POLICY", relation="table", catalog="pg_class"),
    "AlterPublicationStmt": StatementKind(tag="ALTER PUBLICATION"),
    "AlterSeqStmt": StatementKind(
        tag="ALTER SEQUENCE", relation="sequence", catalog="pg_class", is_dumped=True
    ),
    "AlterStatsStmt": StatementKind(
        tag="ALTER STATISTICS", names="defnames", catalog="pg_statistic_ext", is_dumped=True
    ),
    "AlterSubscriptionStmt": StatementKind(tag="ALTER SUBSCRIPTION"),
    "AlterTSConfigurationStmt": StatementKind(
        tag="ALTER TEXT SEARCH CONFIGURATION",
        names="cfgname",
        catalog="pg_ts_config",
        is_dumped=True,
    ),
    "AlterTSDictionaryStmt": StatementKind(tag="ALTER TEXT SEARCH DICTIONARY"),
    "AlterTableMoveAllStmt": StatementKind(verb="ALTER", object_type="objtype"),
    "AlterTableStmt": StatementKind(
        verb="ALTER", relation="relation", catalog="pg_class", object_type="objtype", is_dumped=True
    ),
    "AlterTypeStmt": StatementKind(
        tag="ALTER TYPE", names="type_name", catalog="pg_type", is_dumped=True
    ),
    "AlterUserMappingStmt": StatementKind(tag="ALTER USER MAPPING"),
    "CommentStmt": StatementKind(tag="COMMENT", object_type="objtype", is_dumped=True),
    "CompositeTypeStmt": StatementKind(
        tag="CREATE TYPE", relation="typevar", catalog="pg_type", is_dumped=True
    ),
    "CreateAmStmt": StatementKind(tag="CREATE ACCESS METHOD"),
    "CreateCastStmt": StatementKind(tag="CREATE CAST"),
    "CreateConversionStmt": StatementKind(
        tag="CREATE CONVERSION", names="conversion_name", catalog="pg_conversion", is_dumped=True
    ),
    "CreateDomainStmt": StatementKind(
        tag="CREATE DOMAIN", names="domainname", catalog="pg_type", is_dumped=True
    ),
    "CreateEnumStmt": StatementKind(
        tag="CREATE TYPE", names="type_name", catalog="pg_type", is_dumped=True
    ),
    "CreateExtensionStmt": StatementKind(tag="CREATE EXTENSION"),
    "CreateFdwStmt": StatementKind(tag="CREATE FOREIGN DATA WRAPPER"),
    "CreateForeignServerStmt": StatementKind(tag="CREATE SERVER"),
    "CreateForeignTableStmt": StatementKind(
        tag="CREATE FOREIGN TABLE",
        relation="base_stmt.relation",
        catalog="pg_class",
        is_dumped=True,
    ),
    "CreateFunctionStmt": StatementKind(names="funcname", catalog="pg_proc", is_dumped=True),
    "CreateOpClassStmt": StatementKind(
        tag="CREATE OPERATOR CLASS", names="opclassname", catalog="pg_opclass", is_dumped=True
    ),
    "CreateOpFamilyStmt": StatementKind(
        tag="CREATE OPERATOR FAMILY", names="opfamilyname", catalog="pg_opfamily", is_dumped=True
    ),
    "CreatePLangStmt": StatementKind(tag="CREATE LANGUAGE"),
    "CreatePolicyStmt": StatementKind(
        tag="CREATE POLICY", relation="table", catalog="pg_class", is_dumped=True
    ),
    "CreatePublicationStmt": StatementKind(tag="CREATE PUBLICATION"),
    "CreateRangeStmt": StatementKind(
        tag="CREATE TYPE", names="type_name", catalog="pg_type", is_dumped=True
    ),
    "CreateSchemaStmt": StatementKind(tag="CREATE SCHEMA"),
    "CreateSeqStmt": StatementKind(
        tag="CREATE SEQUENCE", relation="sequence", catalog="pg_class", is_dumped=True
    ),
    "CreateStatsStmt": StatementKind(tag="CREATE STATISTICS", is_dumped=True),
    "CreateStmt": StatementKind(
        tag="CREATE TABLE", relation="relation", catalog="pg_class", is_dumped=True
    ),
    "CreateSubscriptionStmt": StatementKind(tag="CREATE SUBSCRIPTION"),
    "CreateTableAsStmt": StatementKind(relation="into.rel", catalog="pg_class", is_dumped=True),
    "CreateTransformStmt": StatementKind(tag="CREATE TRANSFORM"),
    "CreateTrigStmt": StatementKind(
        tag="CREATE TRIGGER", relation="relation", catalog="pg_class", is_dumped=True
    ),
    "CreateUserMappingStmt": StatementKind(tag="CREATE USER MAPPING"),
    "DefineStmt": StatementKind(
        verb="CREATE", names="defnames", object_type="kind", is_dumped=True
    ),
    "DropOwnedStmt": StatementKind(tag="DROP OWNED"),
    "DropStmt": StatementKind(verb="DROP", object_type="remove_type"),
    "DropSubscriptionStmt": StatementKind(tag="DROP SUBSCRIPTION"),
    "DropUserMappingStmt": StatementKind(tag="DROP USER MAPPING"),
    "GrantStmt": StatementKind(object_type="objtype"),
    "ImportForeignSchemaStmt": StatementKind(tag="IMPORT FOREIGN SCHEMA"),
    "IndexStmt": StatementKind(
        tag="CREATE INDEX", relation="relation", catalog="pg_class", is_dumped=True
    ),
    "RefreshMatViewStmt": StatementKind(tag="REFRESH MATERIALIZED VIEW"),
    "RenameStmt": StatementKind(verb="ALTER", object_type="rename_type"),
    "RuleStmt": StatementKind(
        tag="CREATE RULE", relation="relation", catalog="pg_class", is_dumped=True
    ),
    "SecLabelStmt": StatementKind(tag="SECURITY LABEL", object_type="objtype"),
    "ViewStmt": StatementKind(
        tag="CREATE VIEW", relation="view", catalog="pg_class", is_dumped=True
    ),
}
