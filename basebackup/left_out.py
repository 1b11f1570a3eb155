"""What a copy leaves out of a dump, each with the reason, and how it is named. Pure."""

from __future__ import annotations

from postgast import pg_query_pb2

from pgrepl.basebackup.subject import Subject
from pgrepl.remap_nodes import texts
from pgrepl.syntax import Tree

__all__ = ["LEFT_OUT", "LEFT_OUT_COMMANDS", "left_out_name"]

_AT = pg_query_pb2.AlterTableType

_ONLY_TABLES = "the patterns leave it out"
LEFT_OUT = {
    "CreateForeignTableStmt": ("foreign table", "its rows are elsewhere"),
    "CreatePolicyStmt": ("policy", "row security is the source's"),
    "CreateTableAsStmt": ("materialized view", _ONLY_TABLES),
    "CreateTrigStmt": ("trigger", "what it does arrives as changes"),
    "GrantStmt": ("privileges", "roles are the source's"),
    "AlterDefaultPrivilegesStmt": ("privileges", "roles are the source's"),
    "RuleStmt": ("rule", "what it does arrives as changes"),
    "ViewStmt": ("view", _ONLY_TABLES),
}
LEFT_OUT_COMMANDS = {
    _AT.AT_EnableRowSecurity: ("row security", "it is the source's"),
    _AT.AT_ForceRowSecurity: ("row security", "it is the source's"),
}


def left_out_name(kind: str, statement: Tree, subject: Subject | None) -> str:
    """Return what people call the thing that a statement makes."""
    own = {"CreateTrigStmt": "trigname", "CreatePolicyStmt": "policy_name", "RuleStmt": "rulename"}
    if kind in own:
        return f"{getattr(statement, own[kind])} of {subject}"
    if kind == "GrantStmt":
        return f"on {_granted(statement.objects[0])}"
    return str(subject) if subject is not None else "default privileges"


def _granted(node: Tree) -> str:
    if node.HasField("range_var"):
        return f"{node.range_var.schemaname}.{node.range_var.relname}"
    if node.HasField("object_with_args"):
        return ".".join(texts(node.object_with_args.objname))
    return node.string.sval or ".".join(texts(node.list.items))
