"""Give the schemas in a statement the names that they have on the target.

The names are changed in the tree. Then the tokens of these names are replaced in the text, if it is
known, and what comes out must parse to the changed tree; if that cannot be had, the tree is printed
and parsed again. What belongs to an extension stays with its extension. The new text is searched by
the lexer for names that should have changed: one that is left makes the statement an error, not a
surprise.

A function's body in SQL is a script and is remapped like one. A body in another language, and a
text constant that happens to hold a schema's name, cannot be: they stay as they are, and the
result names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pgrepl.syntax.nodes import NAME_LISTS, OBJECT_FIELDS, REG_TYPES, remap_object, texts
from pgrepl.syntax.parse import (
    SqlSyntaxError,
    Tree,
    names_in,
    parse,
    parse_relation,
    parse_type,
    print_type,
    quoted_constant,
    quoted_names,
    to_sql,
    walk,
)
from pgrepl.syntax.rename_text import rename_in_text

__all__ = ["ConfinedMap", "RemapError", "Remapped", "SchemaMap", "remap", "rename_tables"]

_SEQUENCE_FUNCTIONS = frozenset({"nextval", "currval", "setval"})
_PUBLIC_CATALOGS = frozenset({"pg_catalog", "information_schema"})
_SQL_LANGUAGE = "sql"
_BINARY_LANGUAGES = frozenset({"c", "internal"})


class RemapError(ValueError):
    """A statement that cannot be given the target's names."""


@dataclass(frozen=True, slots=True, eq=False)
class SchemaMap:
    """The names of a source's schemas on the target; one is equal to itself alone."""

    #: Source schema to target schema; a schema that is not here keeps its name.
    schemas: Mapping[str, str]
    #: Members of extensions, by schema and name, with the schema that they have on the target.
    members: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))
    #: Tables that have another name on the target, with it. While structures are changed there,
    #: none has (``pgrepl.store.tables.source_names``), and no text is changed by this.
    tables: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))

    def place(self, schema: str, table: str) -> tuple[str, str]:
        """Return where a table is on the target."""
        return self.target_schema(schema), self.tables.get((schema, table), table)

    def source_of(self, schema: str, table: str) -> tuple[str, str]:
        """Return what a table of the target is on the source."""
        for key, name in self.tables.items():
            if (self.schemas.get(key[0]), name) == (schema, table):
                return key
        return next(
            (here for here, there in self.schemas.items() if there == schema), schema
        ), table

    def target_schema(self, schema: str, name: str | None = None) -> str:
        """Return where an object of this schema is on the target."""
        if name is not None and (schema, name) in self.members:
            return self.members[schema, name]
        return self.schemas.get(schema, schema)

    def renamed(self, schema: str, name: str) -> str:
        """Return the schema's name on the target if it is one of the source's, else itself."""
        is_known = schema in self.schemas or (schema, name) in self.members
        return self.target_schema(schema, name) if is_known else schema

    def must_change(self, schema: str, name: str) -> bool:
        """Whether this name, found on the target's side, still is the source's."""
        return self.target_schema(schema, name) != schema and schema not in self.schemas.values()

    def search_path(self, schemas: list[str]) -> list[str]:
        """Return a search path for the target; where extensions live stays on it."""
        path: list[str] = []
        for schema in schemas:
            path.append(self.target_schema(schema))
            path += [home for (place, _), home in self.members.items() if place == schema]
        return list(dict.fromkeys(path))


@dataclass(frozen=True, slots=True, eq=False)
class ConfinedMap(SchemaMap):
    """A map out of which no name leads: what is not the source's own is an error."""

    def target_schema(self, schema: str, name: str | None = None) -> str:
        """Return where an object of this schema is on the target.

        Raises
        ------
        RemapError
            when the schema is not one of the source's replicated ones.

        """
        if name is not None and (schema, name) in self.members:
            return self.members[schema, name]
        if schema in self.schemas:
            return self.schemas[schema]
        if schema in _PUBLIC_CATALOGS:
            return schema
        raise RemapError(f'it names schema "{schema}", which is not replicated')

    def must_change(self, schema: str, name: str) -> bool:
        """Whether this name, found on the target's side, still is the source's."""
        if schema not in self.schemas:
            return False
        return self.target_schema(schema, name) != schema and schema not in self.schemas.values()


@dataclass(frozen=True, slots=True)
class Remapped:
    """A statement for the target."""

    sql: str
    #: What names a source schema and could not be changed, in words: "plpgsql body".
    opaque: tuple[str, ...] = ()


def remap(statement: Tree, names: SchemaMap, text: str | None = None) -> Remapped:
    """Return the statement with the target's names; the tree given is left as it was.

    If the text that it came from is known, the names are replaced in it where that can be proven
    right; otherwise the tree is printed.

    Raises
    ------
    RemapError
        when the statement names a source schema in a place that is not understood.

    """
    copy = type(statement)()
    copy.CopyFrom(statement)
    remapper = _Remapper(names)
    try:
        remapper.apply(copy)
        sql = rename_in_text(text, copy, names.renamed) if text else None
        if sql is None:
            sql = to_sql(copy)
        _check_names(sql, copy, names)
    except SqlSyntaxError as exc:
        raise RemapError(str(exc)) from exc
    return Remapped(sql, tuple(remapper.opaque))


def rename_tables(sql: str, tables: Mapping[tuple[str, str], str]) -> str:
    """Return a statement of the target with other names of tables, given by schema and table.

    Raises
    ------
    RemapError
        when it is not understood.

    """
    if not tables:
        return sql
    try:
        (tree,) = parse(sql)
    except (SqlSyntaxError, ValueError) as exc:
        raise RemapError(str(exc)) from exc
    return remap(tree, SchemaMap({}, tables=tables)).sql


def _check_names(sql: str, tree: Tree, names: SchemaMap) -> None:
    """Search the printed statement for names that it should not hold any more."""
    # Two names may be a table and its column, and the table may be called like a schema.
    aliases: set[tuple[str, ...]] = set()
    constants: set[tuple[str, str]] = set()
    for part in walk(tree):
        kind = part.DESCRIPTOR.name
        if kind == "ColumnRef":
            aliases.add(tuple(texts(part.fields)))
        elif kind == "DefElem" and part.defname == "owned_by":
            aliases.add(tuple(texts(part.arg.list.items)))
        elif kind in ("A_Const", "DefElem", "CommentStmt", "CreateEnumStmt"):
            constants.update(_pairs_of_constants(part))
    for schema, name in names_in(sql):
        if (schema, name) in aliases or (schema, name) in constants:
            continue
        if names.must_change(schema, name):
            raise RemapError(f'it names "{schema}"."{name}" in a place that is not understood')


def _pairs_of_constants(tree: Tree) -> set[tuple[str, str]]:
    """Return names inside constants that were seen and judged while remapping."""
    found: set[tuple[str, str]] = set()
    for part in walk(tree):
        if part.DESCRIPTOR.name == "String":
            found.update(_constant_names(part.sval))
    if tree.DESCRIPTOR.name == "CommentStmt":
        found.update(_constant_names(tree.comment))
    return found


def _constant_names(text: str) -> set[tuple[str, str]]:
    try:
        return set(names_in(quoted_constant(text)))
    except SqlSyntaxError:
        return set()


class _Remapper:
    def __init__(self, names: SchemaMap) -> None:
        self._names = names
        self.opaque: list[str] = []

    def apply(self, tree: Tree) -> None:
        for part in walk(tree):
            kind = part.DESCRIPTOR.name
            for name in NAME_LISTS.get(kind, ()):
                self._name_list(getattr(part, name), 3 if kind == "ColumnRef" else 2)
            if kind in OBJECT_FIELDS:
                remap_object(part, self._name_list, self._schema)
            handler = getattr(self, f"_on_{kind}", None)
            if handler is not None:
                handler(part)

    def _name_list(self, nodes: Tree, least: int = 2) -> None:
        """Rename the schema at the head of a list of names that has one."""
        if len(nodes) >= least and nodes[0].HasField("string"):
            second = nodes[1].string.sval if nodes[1].HasField("string") else None
            nodes[0].string.sval = self._names.target_schema(nodes[0].string.sval, second)

    def _schema(self, schema: str) -> str:
        return self._names.target_schema(schema)

    def _on_RangeVar(self, node: Tree) -> None:  # noqa: N802  named like the node
        if node.schemaname:
            schema, name = node.schemaname, node.relname
            node.schemaname = self._names.target_schema(schema, name)
            node.relname = self._names.tables.get((schema, name), name)

    def _on_CreateSchemaStmt(self, node: Tree) -> None:  # noqa: N802
        node.schemaname = self._schema(node.schemaname)

    def _on_AlterObjectSchemaStmt(self, node: Tree) -> None:  # noqa: N802
        node.newschema = self._schema(node.newschema)

    def _on_Constraint(self, node: Tree) -> None:  # noqa: N802
        for pair in node.exclusions:
            self._name_list(pair.list.items[1].list.items)

    def _on_DefElem(self, node: Tree) -> None:  # noqa: N802
        if node.arg.HasField("list"):
            if node.defname == "owned_by":
                self._name_list(node.arg.list.items, 3)
            elif node.defname in ("sequence_name", "commutator", "negator"):
                self._name_list(node.arg.list.items)
        elif node.defname == "schema" and node.arg.HasField("string"):
            node.arg.string.sval = self._schema(node.arg.string.sval)

    def _on_VariableSetStmt(self, node: Tree) -> None:  # noqa: N802
        if node.name != "search_path" or not node.args:
            return
        path = [argument.a_const.sval.sval for argument in node.args]
        del node.args[:]
        for schema in self._names.search_path(path):
            node.args.add().a_const.sval.sval = schema

    def _on_FuncCall(self, node: Tree) -> None:  # noqa: N802
        is_sequence = texts(node.funcname)[-1] in _SEQUENCE_FUNCTIONS
        if is_sequence and node.args and node.args[0].HasField("a_const"):
            self._reg_constant(node.args[0].a_const, "regclass")

    def _on_TypeCast(self, node: Tree) -> None:  # noqa: N802
        kind = texts(node.type_name.names)[-1]
        if kind in REG_TYPES and node.arg.HasField("a_const"):
            self._reg_constant(node.arg.a_const, kind)

    def _on_ColumnDef(self, node: Tree) -> None:  # noqa: N802
        # The default of a regclass column names a table, cast or not.
        kind = (texts(node.type_name.names) or [""])[-1]
        for constraint in node.constraints if kind in REG_TYPES else ():
            default = constraint.constraint.raw_expr
            if default.HasField("a_const"):
                self._reg_constant(default.a_const, kind)

    def _reg_constant(self, constant: Tree, kind: str) -> None:
        """Rename inside a text that PostgreSQL reads as the name of an object."""
        if not constant.HasField("sval"):
            return
        text = constant.sval.sval
        if kind == "regnamespace":
            constant.sval.sval = self._schema(text)
        elif kind in ("regclass", "regcollation", "regproc", "regconfig", "regdictionary"):
            old, name = parse_relation(text)
            schema = self._names.target_schema(old, name) if old else old
            if schema != old:
                constant.sval.sval = quoted_names(schema, name)
        elif kind == "regtype":
            type_name = parse_type(text)
            self.apply(type_name)
            constant.sval.sval = print_type(type_name)
        elif any(f"{schema}." in text for schema in self._names.schemas):
            raise RemapError(f"a constant of type {kind} names a schema")

    def _on_A_Const(self, node: Tree) -> None:  # noqa: N802
        # A constant that is a name for certain was renamed with the node above it.
        if node.HasField("sval") and self._mentions_schema(quoted_constant(node.sval.sval)):
            self.opaque.append("text constant")

    def _on_DoStmt(self, node: Tree) -> None:  # noqa: N802
        for argument in node.args:
            if self._mentions_schema(argument.def_elem.arg.string.sval):
                self.opaque.append("body of DO")

    def _on_CreateFunctionStmt(self, node: Tree) -> None:  # noqa: N802
        options = {option.def_elem.defname: option.def_elem.arg for option in node.options}
        language = options["language"].string.sval if "language" in options else _SQL_LANGUAGE
        if "as" not in options or language in _BINARY_LANGUAGES:
            return
        body = options["as"].list.items[0].string
        if language == _SQL_LANGUAGE:
            body.sval = self._sql_body(body.sval)
        elif self._mentions_schema(body.sval):
            self.opaque.append(f"{language} body")

    def _sql_body(self, body: str) -> str:
        statements = parse(body)
        before = [to_sql(statement) for statement in statements]
        for statement in statements:
            self.apply(statement)
        after = [to_sql(statement) for statement in statements]
        return body if before == after else ";\n".join(after)

    def _mentions_schema(self, body: str) -> bool:
        try:
            return any(self._names.must_change(*pair) for pair in names_in(body))
        except SqlSyntaxError:
            return any(f"{schema}." in body for schema in self._names.schemas)
