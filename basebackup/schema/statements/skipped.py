"""What a copy skips of a dump, each with the reason, and how it is named. Pure."""

from __future__ import annotations

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.statements.subject import Subject
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree

__all__ = ["LEFT_OUT", "left_out_comment", "left_out_of"]

_AT = pg_query_pb2.AlterTableType
_OBJECT = pg_query_pb2.ObjectType

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
_COMMANDS = {
    _AT.AT_EnableRowSecurity: ("row security", "it is the source's"),
    _AT.AT_ForceRowSecurity: ("row security", "it is the source's"),
}
# Comments on these go with them, and they are named.
_NAMED_WITHOUT_COMMENT = frozenset(
    {
        _OBJECT.OBJECT_CONVERSION,
        _OBJECT.OBJECT_FOREIGN_TABLE,
        _OBJECT.OBJECT_POLICY,
        _OBJECT.OBJECT_RULE,
        _OBJECT.OBJECT_TRIGGER,
    }
)


def left_out_of(kind: str, statement: Tree, subject: Subject | None) -> LeftOut | None:
    """Name what a statement makes or switches on when a copy leaves it out."""
    if kind in LEFT_OUT:
        what, reason = LEFT_OUT[kind]
        return LeftOut(what, _name(kind, statement, subject), reason)
    if kind == "AlterTableStmt" and statement.cmds[0].alter_table_cmd.subtype in _COMMANDS:
        what, reason = _COMMANDS[statement.cmds[0].alter_table_cmd.subtype]
        return LeftOut(what, str(subject), reason)
    return None


def left_out_comment(statement: Tree) -> list[LeftOut]:
    """Name a comment on no known kind of object, unless what it is on is named itself."""
    if statement.objtype in _NAMED_WITHOUT_COMMENT:
        return []
    kind = _OBJECT.Name(statement.objtype).removeprefix("OBJECT_").lower().replace("_", " ")
    node = statement.object
    name = node.string.sval or ".".join(filter(None, texts(node.list.items)))
    return [LeftOut("comment", f"on {kind} {name}".rstrip(), "pgrepl does not know what it is on")]


def _name(kind: str, statement: Tree, subject: Subject | None) -> str:
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
