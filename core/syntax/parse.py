"""SQL as trees: parsed and printed by PostgreSQL's own grammar.

A tree is libpg_query's protobuf message. ``to_sql`` prints one and parses what it printed again;
a text that does not mean the same tree never leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import postgast
from google.protobuf.internal import api_implementation  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from postgast import pg_query_pb2

__all__ = [
    "SqlSyntaxError",
    "StatementTexts",
    "Tree",
    "is_same",
    "names_in",
    "parse",
    "parse_one",
    "parse_relation",
    "parse_texts",
    "parse_type",
    "print_expression",
    "print_type",
    "quoted_constant",
    "quoted_names",
    "scan",
    "to_sql",
    "token_name",
    "walk",
    "without_positions",
]

#: A statement's tree, or a part of one. Protobuf makes its classes at run time, without types.
Tree = Any

_POSITIONS = frozenset(
    {
        "list_end",
        "list_start",
        "location",
        "name_location",
        "rexpr_list_end",
        "rexpr_list_start",
        "stmt_len",
        "stmt_location",
    }
)
_DOT = ord(".")
_COMMA, _SEMICOLON = ord(","), ord(";")
_OPENING, _CLOSING = frozenset(map(ord, "([")), frozenset(map(ord, ")]"))
_LATER_WORD = "system_user"
#: Functions here and elsewhere call themselves for each level of a tree, of which Python does not
#: do many more; an operator is two levels.
_MOST_LEVELS = 400
#: libpg_query calls itself for each level too and counts none, until its stack ends and the program
#: with it.
_MOST_NESTED = 10_000
#: So many words, one inside the other, make fewer levels than the most.
_SHALLOW = 100
_TOO_DEEP = "it is nested too deeply"

# Without it a message of more than 100 levels, as of 50 operators, is refused.
if hasattr(api_implementation._c_module, "SetAllowOversizeProtos"):  # noqa: SLF001  nothing else sets it
    api_implementation._c_module.SetAllowOversizeProtos(True)  # noqa: FBT003, SLF001


class SqlSyntaxError(ValueError):
    """A text is not SQL that PostgreSQL's grammar knows, or a tree cannot be printed as SQL."""


def parse(sql: str) -> list[Tree]:
    """Return the statements of a script, in order."""
    return [raw.stmt for raw in _parse(sql).stmts]


def parse_texts(sql: str) -> Iterator[tuple[Tree, str]]:
    """Yield the statements of a script, each with its own text."""
    script, text = _parse_either(sql)
    content = text.encode()
    for raw in script.stmts:
        end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(content)
        yield raw.stmt, content[raw.stmt_location : end].decode().strip()


class StatementTexts:
    """The texts that statements were parsed from; a statement that was changed has none."""

    def __init__(self, *scripts: str) -> None:
        """Parse scripts."""
        self._texts: dict[bytes, str] = {
            _bytes_of(tree): text for script in scripts for tree, text in parse_texts(script)
        }

    def find(self, statement: Tree) -> str | None:
        """Return the text of a statement."""
        return self._texts.get(_bytes_of(statement)) if self._texts else None


def parse_one(sql: str) -> Tree:
    """Return the statement that a text is; one that is several, or none, is an error."""
    statements = parse(sql)
    if len(statements) != 1:
        message = "the text is not one statement"
        raise SqlSyntaxError(message)
    return statements[0]


def parse_relation(text: str) -> tuple[str, str]:
    """Return schema, which may be empty, and name out of a text that names a relation."""
    statement = parse_one(f"select from {text}")
    relations = statement.select_stmt.from_clause
    if relations and relations[0].HasField("range_var"):
        relation = relations[0].range_var
        names = (
            [relation.schemaname, relation.relname] if relation.schemaname else [relation.relname]
        )
        if is_same(statement, parse_one(f"select from {quoted_names(*names)}")):
            return relation.schemaname, relation.relname
    message = "the text is not the name of a relation"
    raise SqlSyntaxError(message)


def parse_type(text: str) -> Tree:
    """Return what a text means that names a type."""
    statement = parse_one(f"select null::{text}")
    targets = statement.select_stmt.target_list
    if targets and targets[0].res_target.val.HasField("type_cast"):
        type_name = targets[0].res_target.val.type_cast.type_name
        if is_same(statement, _null_of(type_name)):
            return type_name
    message = "the text is not the name of a type"
    raise SqlSyntaxError(message)


def to_sql(statement: Tree) -> str:
    """Print a statement, without a semicolon, and prove that the text means the same tree."""
    script = pg_query_pb2.ParseResult()
    script.stmts.add().stmt.CopyFrom(statement)
    try:
        sql: str = postgast.deparse(script)
        again = _read(sql)
    except postgast.PgQueryError as exc:
        raise SqlSyntaxError(str(exc)) from exc
    if len(again.stmts) != 1 or not is_same(again.stmts[0].stmt, statement):
        message = "the statement cannot be printed without changing its meaning"
        raise SqlSyntaxError(message)
    return sql


def print_expression(expression: Tree) -> str:
    """Print an expression as SQL."""
    (tree,) = parse("select 1")
    tree.select_stmt.target_list[0].res_target.val.CopyFrom(expression)
    return to_sql(tree).removeprefix("SELECT ")


def print_type(type_name: Tree) -> str:
    """Print the name of a type as SQL."""
    return to_sql(_null_of(type_name)).removeprefix("SELECT NULL::")


def is_same(one: Tree, other: Tree) -> bool:
    """Whether two statements mean the same, wherever they stood in their texts."""
    return bool(one == other or without_positions(one) == without_positions(other))


def walk(tree: Tree) -> Iterator[Tree]:
    """Yield every message of a tree, a parent before its children."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(_children(part))


def names_in(sql: str) -> Iterator[tuple[str, str]]:
    """Yield each pair of names with a dot between, as the lexer sees it: ``a.b.c`` is two pairs.

    Text constants are looked into as well: ``nextval('shop.number')`` names ``shop.number``.
    """
    tokens = scan(sql)
    text = sql.encode()
    for index, token in enumerate(tokens):
        if token.token == pg_query_pb2.SCONST:
            yield from _names_in_constant(text[token.start + 1 : token.end - 1].decode())
        elif token.token == _DOT and 0 < index < len(tokens) - 1:
            before, after = tokens[index - 1], tokens[index + 1]
            yield (
                token_name(text[before.start : before.end].decode()),
                token_name(text[after.start : after.end].decode()),
            )


def quoted_names(*names: str) -> str:
    """Return names as SQL has them, quoted and with dots between."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def quoted_constant(text: str) -> str:
    """Return a text constant as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def token_name(token: str) -> str:
    """Return the name that a token stands for."""
    if token.startswith('"'):
        return token[1:-1].replace('""', '"')
    # Of bytes only the letters of ASCII change, as in PostgreSQL.
    return token.encode().lower().decode()


def scan(sql: str) -> list[Tree]:
    """Return the tokens of a script, comments among them."""
    _check_text(sql)
    try:
        return list(postgast.scan(sql).tokens)
    except postgast.PgQueryError as exc:
        raise SqlSyntaxError(str(exc)) from exc


def _null_of(type_name: Tree) -> Tree:
    """Return the statement that reads a null of a type."""
    tree = parse_one("select null::int")
    tree.select_stmt.target_list[0].res_target.val.type_cast.type_name.CopyFrom(type_name)
    return tree


def _parse(sql: str) -> Tree:
    return _parse_either(sql)[0]


def _parse_either(sql: str) -> tuple[Tree, str]:
    """Return the trees of a script, and the text that they are of.

    A word that a server before 16 takes for a name is one where it could be nothing else.
    """
    _check_text(sql)
    try:
        return _read(sql), sql
    except postgast.PgQueryError as exc:
        quoted = _with_later_words_quoted(sql)
        if quoted != sql:
            with suppress(postgast.PgQueryError):
                return _read(quoted), quoted
        raise SqlSyntaxError(str(exc)) from exc


def _check_text(sql: str) -> None:
    """Refuse what no server can have sent, and what C would read as another text."""
    try:
        sql.encode()
    except UnicodeEncodeError as exc:
        message = "the text is not valid Unicode"
        raise SqlSyntaxError(message) from exc
    if "\0" in sql:
        message = "the text holds the character NUL"
        raise SqlSyntaxError(message)


def _read(sql: str) -> Tree:
    """Return the trees of a script, each no deeper than whoever goes through it can go."""
    nested = len(sql) if len(sql) <= _SHALLOW else _nested_at_most(scan(sql))
    if nested > _MOST_NESTED:
        raise SqlSyntaxError(_TOO_DEEP)
    try:
        script = postgast.parse(sql)
    except DecodeError as exc:
        raise SqlSyntaxError(_TOO_DEEP) from exc
    if nested > _SHALLOW:
        _check_depth(script)
    return script


def _check_depth(script: Tree) -> None:
    level: list[Tree] = [script]
    for _ in range(_MOST_LEVELS):
        level = [child for part in level for child in _children(part)]
        if not level:
            return
    raise SqlSyntaxError(_TOO_DEEP)


def _children(part: Tree) -> list[Tree]:
    children: list[Tree] = []
    for field, value in part.ListFields():
        if field.message_type is not None:
            children += value if field.is_repeated else (value,)
    return children


def _nested_at_most(tokens: list[Tree]) -> int:
    """Return how many words of a script may be one inside the other.

    What commas separate stands side by side.
    """
    most = depth = 0
    counts = [0]
    for token in tokens:
        kind = token.token
        if kind == _COMMA or (kind == _SEMICOLON and len(counts) == 1):
            depth -= counts[-1]
            counts[-1] = 0
            continue
        if kind in _CLOSING and len(counts) > 1:
            depth -= counts.pop()
            continue
        counts[-1] += 1
        depth += 1
        if kind in _OPENING:
            counts.append(0)
        most = max(most, depth)
    return most


def _with_later_words_quoted(sql: str) -> str:
    """Return a script with words as names that are reserved since PostgreSQL 16."""
    if _LATER_WORD not in sql.lower():
        return sql
    try:
        tokens = scan(sql)
    except SqlSyntaxError:
        return sql
    content, end = sql.encode(), 0
    pieces: list[bytes] = []
    for token in tokens:
        if token.token == pg_query_pb2.SYSTEM_USER:
            pieces += [content[end : token.start], quoted_names(_LATER_WORD).encode()]
            end = token.end
    return b"".join([*pieces, content[end:]]).decode()


def _bytes_of(statement: Tree) -> bytes:
    return bytes(statement.SerializeToString(deterministic=True))


def _names_in_constant(text: str) -> Iterator[tuple[str, str]]:
    try:
        (statement,) = parse(f"select from {text}")
    except (SqlSyntaxError, ValueError):
        return
    for tree in walk(statement):
        if tree.DESCRIPTOR.name == "RangeVar" and tree.schemaname:
            yield tree.schemaname, tree.relname


def without_positions(statement: Tree) -> Tree:
    """Return a copy that differs from others only where they mean something else."""
    copy = type(statement)()
    copy.CopyFrom(statement)
    for tree in walk(copy):
        for name in _positions_of(tree.DESCRIPTOR):
            tree.ClearField(name)
    return copy


@cache
def _positions_of(kind: Tree) -> tuple[str, ...]:
    return tuple(_POSITIONS.intersection(kind.fields_by_name))
