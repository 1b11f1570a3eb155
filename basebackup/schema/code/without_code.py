"""A dump without what the target refused: no code of a source runs there. Pure.

A generated column becomes a plain one, which is filled with the source's values. Checks, indexes,
defaults and the like are skipped, each by name and with the reason. What is no value without its
code, a column of a base type of the source, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from postgast import pg_query_pb2

from pgrepl.basebackup.schema.code.expressions import Element, Key, sort_out
from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import CodeNeededError, UnknownStatementError
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.statements.subject import Subject, subject_of
from pgrepl.config.naming import shown_name
from pgrepl.source_code.policy import is_constant
from pgrepl.store.skipped_code import SkippedCode
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree, walk
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Reduced", "without_code"]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_OBJECT = pg_query_pb2.ObjectType
_CODE_STATEMENTS = frozenset(
    {"AlterOpFamilyStmt", "CreateFunctionStmt", "CreateOpClassStmt", "CreateOpFamilyStmt"}
)
_CODE_KINDS = frozenset(
    {
        _OBJECT.OBJECT_AGGREGATE,
        _OBJECT.OBJECT_OPERATOR,
        _OBJECT.OBJECT_TSPARSER,
        _OBJECT.OBJECT_TSTEMPLATE,
        _OBJECT.OBJECT_TYPE,
    }
)
_NEVER_PRINTED = frozenset({_AT.AT_AddColumn, _AT.AT_AlterColumnType, _AT.AT_SetExpression})
_CODE_REASON = "code of the source; only trust_code brings it"
#: What parents and children have together or not at all.
_FAMILY_KINDS = ("check", "generated column")
_TYPE_STATEMENTS = frozenset(
    {"CompositeTypeStmt", "CreateDomainStmt", "CreateEnumStmt", "CreateRangeStmt"}
)

TableKey = tuple[str, str]


@dataclass(slots=True)
class Reduced:
    """A dump without the source's code."""

    dump: Dump
    objects: SourceObjects
    skipped: list[SkippedCode] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def without_code(dump: Dump, objects: SourceObjects, refused: Mapping[Key, str]) -> Reduced:
    """Take out of a dump what was refused, and all code.

    Raises
    ------
    CodeNeededError
        when a table cannot be made without code of the source.

    """
    reasons = dict(refused)
    _check_partition_keys(reasons)
    _spread(dump, reasons)
    _refuse_foreign_keys(dump, reasons)
    types = _types_with_code(dump, reasons)
    _check_tables(dump, objects, types)
    reducer = _Reducer(reasons, types)
    before = [tree for tree in map(reducer.take, dump.before_data) if tree is not None]
    after = [tree for tree in map(reducer.take, dump.after_data) if tree is not None]
    gone = {key[1:3] for key in reasons if key[0] in ("view", "materialized view")}
    views = replace(
        objects.views,
        chosen=[view for view in objects.views.chosen if view.key not in gone],
        needed=[
            item
            for item in objects.views.needed
            if item.catalog != "pg_class" or (item.schema, item.name) not in gone
        ],
    )
    return Reduced(
        Dump(before, after, dump.texts),
        replace(objects, views=views),
        reducer.skipped,
        reducer.left_out,
    )


class _Reducer:
    def __init__(self, reasons: Mapping[Key, str], types: Mapping[TableKey, str]) -> None:
        self._reasons = reasons
        self._types = types
        self._seen: set[Key] = set()
        self.skipped: list[SkippedCode] = []
        self.left_out: list[LeftOut] = []

    def take(self, tree: Tree) -> Tree | None:
        kind, statement = statement_of(tree)
        subject = subject_of(tree)
        if _is_code(kind, statement):
            # A type without a definition is a name for one that comes later.
            if kind != "AlterOpFamilyStmt" and (kind != "DefineStmt" or statement.definition):
                what = subject.catalog.removeprefix("pg_") if subject is not None else kind
                what = {"proc": "function"}.get(what, what)
                self.left_out.append(LeftOut(what, str(subject), _CODE_REASON))
            return None
        lacking = self._lacking(subject)
        if subject is not None and lacking is not None:
            if kind in _TYPE_STATEMENTS:
                self._skip(("type", subject.schema, subject.name, ""), None, lacking)
            return None
        if kind == "CommentStmt" and self._is_on_skipped(statement):
            return None
        if kind == "AlterTableStmt":
            _check_alter(statement)
        return sort_out(tree, self._keep)

    def _lacking(self, subject: Subject | None) -> str | None:
        if subject is None or subject.catalog != "pg_type":
            return None
        return self._types.get((subject.schema, subject.name))

    def _keep(self, element: Element) -> bool:
        reason = self._reasons.get(element.key)
        if reason is None:
            return True
        if element.kind == "generated column":
            reason += "; a plain column holds the source's values"
        self._skip(element.key, element.definition, reason)
        return False

    def _skip(self, key: Key, definition: str | None, reason: str) -> None:
        kind, schema, table, name = key
        if key in self._seen:
            return
        self._seen.add(key)
        self.skipped.append(
            SkippedCode(
                kind=kind,
                schema_name=schema,
                table_name=table,
                name=name,
                definition=definition,
                reason=reason,
            )
        )

    def _is_on_skipped(self, statement: Tree) -> bool:
        if statement.objtype == _OBJECT.OBJECT_TABCONSTRAINT:
            names = tuple(texts(statement.object.list.items))
            return any((kind, *names) in self._reasons for kind in _CONSTRAINT_KINDS)
        if statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT:
            domain, name = statement.object.list.items
            names = (*texts(domain.type_name.names), name.string.sval)
            return ("domain check", *names) in self._reasons
        return False


_CONSTRAINT_KINDS = ("check", "exclusion constraint", "foreign key")


def _is_code(kind: str, statement: Tree) -> bool:
    return kind in _CODE_STATEMENTS or (kind == "DefineStmt" and statement.kind in _CODE_KINDS)


def _check_alter(statement: Tree) -> None:
    """Refuse what no pg_dump prints: a command after another, or one that computes rows."""
    commands = [node.alter_table_cmd for node in statement.cmds]
    if len(commands) != 1 or commands[0].subtype in _NEVER_PRINTED:
        raise UnknownStatementError(
            f"an ALTER TABLE of {shown_name(*_name(statement.relation))} in the source's schema is"
            " none that pg_dump prints"
        )


def _spread(dump: Dump, reasons: dict[Key, str]) -> None:
    """Refuse for all parents and children what is refused for one of them."""
    families = list(_families(dump.before_data))
    for kind, schema, table, name in list(reasons):
        if kind not in _FAMILY_KINDS:
            continue
        reason = reasons[kind, schema, table, name]
        for family in families:
            if (schema, table) in family:
                for member in family:
                    reasons.setdefault((kind, *member, name), reason)


def _families(trees: Iterable[Tree]) -> Sequence[set[TableKey]]:
    families: list[set[TableKey]] = []
    for tree in trees:
        kind, statement = statement_of(tree)
        related: set[TableKey] = set()
        if kind == "CreateStmt":
            related = {_name(node.range_var) for node in statement.inh_relations}
            _check_bound(statement, statement.partbound)
        elif kind == "AlterTableStmt":
            definition = getattr(statement.cmds[0].alter_table_cmd, "def")
            if definition.HasField("partition_cmd"):
                _check_bound(statement, definition.partition_cmd.bound)
                related = {_name(definition.partition_cmd.name)}
        if related:
            related.add(_name(statement.relation))
            joined = [family for family in families if family & related]
            families = [family for family in families if not family & related]
            families.append(related.union(*joined))
    return families


def _check_bound(statement: Tree, bound: Tree) -> None:
    """Refuse a partition's bounds that are computed: PostgreSQL prints constants."""
    for node in (*bound.listdatums, *bound.lowerdatums, *bound.upperdatums):
        if not node.HasField("column_ref") and not is_constant(node):
            table = shown_name(*_name(statement.relation))
            raise CodeNeededError(f"the bounds of a partition of {table} are computed")


def _name(node: Tree) -> TableKey:
    return node.schemaname, node.relname


def _refuse_foreign_keys(dump: Dump, reasons: dict[Key, str]) -> None:
    """Refuse foreign keys to columns that no unique index is left for."""
    unique: dict[_UniqueKey, str] = {}
    lost: dict[_UniqueKey, str] = {}
    for tree in dump.after_data:
        key, name = _unique_key(tree)
        if key is not None:
            (lost if ("index", *key[0], name) in reasons else unique)[key] = name
    for tree in dump.after_data if lost else ():
        statement = tree.alter_table_stmt
        constraint = _constraint(tree)
        if constraint is None or constraint.contype != _CON.CONSTR_FOREIGN:
            continue
        referenced = (_name(constraint.pktable), frozenset(texts(constraint.pk_attrs)))
        if referenced in lost and referenced not in unique:
            reasons["foreign key", *_name(statement.relation), constraint.conname] = (
                f'it needs the unique index "{lost[referenced]}", which is skipped'
            )


_UniqueKey = tuple[TableKey, frozenset[str]]


def _unique_key(tree: Tree) -> tuple[_UniqueKey | None, str]:
    """Return the table and the columns that a statement makes unique, and the index's name."""
    index, constraint = tree.index_stmt, _constraint(tree)
    if tree.HasField("index_stmt") and index.unique and not index.HasField("where_clause"):
        columns = frozenset(node.index_elem.name for node in index.index_params)
        return (_name(index.relation), columns), index.idxname
    if constraint is not None and constraint.contype in _UNIQUE:
        table = _name(tree.alter_table_stmt.relation)
        return (table, frozenset(texts(constraint.keys))), constraint.conname
    return None, ""


_UNIQUE = frozenset({_CON.CONSTR_PRIMARY, _CON.CONSTR_UNIQUE})


def _constraint(tree: Tree) -> Tree | None:
    """Return the constraint that a statement adds to a table."""
    if not tree.HasField("alter_table_stmt"):
        return None
    definition = getattr(tree.alter_table_stmt.cmds[0].alter_table_cmd, "def")
    return definition.constraint if definition.HasField("constraint") else None


def _types_with_code(dump: Dump, reasons: Mapping[Key, str]) -> dict[TableKey, str]:
    """Return the types that cannot be made, and those that are made of them, with the reason."""
    found: dict[TableKey, str] = {}
    for tree in dump.before_data:
        kind, statement = statement_of(tree)
        names = texts(statement.defnames) if kind == "DefineStmt" else []
        if kind == "DefineStmt" and statement.kind == _OBJECT.OBJECT_TYPE and statement.definition:
            found[names[0], names[-1]] = "functions of the source read and print its values"
    for kind, schema, table, _ in reasons:
        if kind in ("range type", "type"):
            found[schema, table] = reasons[kind, schema, table, _]
    is_more = True
    while is_more:
        is_more = False
        for tree in dump.before_data:
            kind, _statement = statement_of(tree)
            subject = subject_of(tree)
            if subject is None or kind not in _TYPE_STATEMENTS:
                continue
            key = (subject.schema, subject.name)
            base = next((name for name in _type_names(tree) if name in found), None)
            if base is not None and key not in found:
                found[key] = f"it is made of type {shown_name(*base)}, which is not made"
                is_more = True
    return found


def _check_tables(dump: Dump, objects: SourceObjects, types: Mapping[TableKey, str]) -> None:
    tables = {table.key for table in objects.tables}
    for tree in dump.before_data:
        kind, statement = statement_of(tree)
        if kind != "CreateStmt" or _name(statement.relation) not in tables:
            continue
        for node in statement.table_elts:
            column = node.column_def
            name = next((n for n in _type_names(column.type_name) if n in types), None)
            if name is not None:
                table = shown_name(*_name(statement.relation))
                raise CodeNeededError(
                    f"column {shown_name(column.colname)} of {table} is of type"
                    f" {shown_name(*name)}, which needs code of the source: {types[name]}"
                )


def _check_partition_keys(refused: Mapping[Key, str]) -> None:
    """Refuse partitioned tables whose rows only code of the source can deal out."""
    for kind, schema, table, _ in refused:
        if kind == "partition key":
            reason = refused[kind, schema, table, _]
            raise CodeNeededError(
                f"the partition key of {shown_name(schema, table)} cannot be computed on the"
                f" target: {reason}"
            )


def _type_names(tree: Tree) -> Iterator[TableKey]:
    for part in walk(tree):
        if part.DESCRIPTOR.name == "TypeName":
            names = texts(part.names)
            if len(names) > 1:
                yield names[-2], names[-1]
