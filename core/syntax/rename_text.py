"""Rename schemas in a statement's own text, and prove that nothing else changed.

Printing a tree loses what the printer does not know. Here only the tokens of the names are
replaced: those before a dot, those that stand alone as a schema, and text constants that hold a
name; and a name that had no schema may get one. Which ones is first a guess, by the lexer and the
positions in the tree; the proof is that the new text parses to the renamed tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from postgast import pg_query_pb2

from pgrepl.syntax.parse import (
    SqlSyntaxError,
    Tree,
    parse,
    parse_one,
    quoted_constant,
    quoted_names,
    scan,
    token_name,
    walk,
    without_positions,
)

__all__ = ["rename_in_text"]

_DOT = ord(".")
_QUOTE = "'"
#: Literals without escapes of their own.
_CONSTANT = pg_query_pb2.SCONST
_SCHEMA = pg_query_pb2.SCHEMA


@dataclass(frozen=True, slots=True)
class _Token:
    kind: int
    start: int
    end: int
    text: str

    @property
    def is_name(self) -> bool:
        return self.text[0] == '"' or self.text[0].isalpha() or self.text[0] == "_"


@dataclass(frozen=True, slots=True)
class _Change:
    """A text of the tree that is another one in the renamed tree."""

    before: str
    after: str
    #: The name that gets a schema; None: the text itself is the name of one.
    name: str | None = None


def rename_in_text(
    text: str, renamed: Tree, target_schema: Callable[[str, str], str]
) -> str | None:
    """Return the text with the names of the renamed tree; None where it cannot be proven.

    ``renamed`` is the tree of the text but for its schemas, ``target_schema`` gives the schema of a
    qualified name.
    """
    try:
        original = parse_one(text)
        changes = list(_changes(original, renamed))
        tokens = _scan(text)
    except (SqlSyntaxError, _OtherShapeError):
        return None
    if not changes:
        return text
    kept = _columns(original)
    qualified = _qualified(tokens, kept, target_schema)
    constants = _constants(tokens, changes)
    names = {change.before: change.after for change in changes if change.name is None}
    alone = _alone(tokens, names)
    after_keyword = {i: new for i, new in alone.items() if tokens[i - 1].kind == _SCHEMA}
    bare = _bare(tokens, {change.name: change.after for change in changes if change.name})
    first = dict(list(bare.items())[:1])
    wanted = without_positions(renamed)
    for some, others, added in product(
        (constants, {}), ({}, after_keyword, alone), (first, bare) if bare else ({},)
    ):
        candidate = _replaced(text, tokens, qualified | some | others | added)
        if _is_text_of(candidate, wanted):
            return candidate
    return None


class _OtherShapeError(Exception):
    """The trees differ in more than their texts."""


def _is_text_of(text: str, tree: Tree) -> bool:
    """Whether a text means a tree that has no positions."""
    try:
        statements = parse(text)
    except SqlSyntaxError:
        return False
    return len(statements) == 1 and without_positions(statements[0]) == tree


def _changes(before: Tree, after: Tree) -> Iterator[_Change]:
    if before == after:
        return
    if before.DESCRIPTOR.name == "RangeVar" and after.schemaname and not before.schemaname:
        yield _Change("", after.schemaname, before.relname)
        return
    for field in _set_fields(before, after):
        one, two = getattr(before, field.name), getattr(after, field.name)
        if field.message_type is not None:
            if field.is_repeated and len(two) == len(one) + 1 and len(one) == 1:
                yield _added(one, two)
                continue
            pairs = _pairs(before, after, one, two, field)
            for left, right in pairs:
                yield from _changes(left, right)
        elif field.type == field.TYPE_STRING and not field.is_repeated and one != two:
            yield _Change(one, two)


def _set_fields(*trees: Tree) -> Iterable[Tree]:
    """Return the fields that one of the trees has: a node could have one of hundreds."""
    return {field.number: field for tree in trees for field, _ in tree.ListFields()}.values()


def _added(before: Tree, after: Tree) -> _Change:
    """Return the schema at the head of a list of names that had none."""
    if not all(node.HasField("string") for node in [*before, *after]):
        raise _OtherShapeError
    return _Change("", after[0].string.sval, before[0].string.sval)


def _pairs(
    before: Tree, after: Tree, one: Tree, two: Tree, field: Tree
) -> Iterable[tuple[Tree, Tree]]:
    if field.is_repeated:
        if len(one) != len(two):
            raise _OtherShapeError
        return zip(one, two, strict=True)
    if before.HasField(field.name) != after.HasField(field.name):
        raise _OtherShapeError
    return [(one, two)] if before.HasField(field.name) else []


def _scan(text: str) -> list[_Token]:
    content = text.encode()
    return [
        _Token(token.token, token.start, token.end, content[token.start : token.end].decode())
        for token in scan(text)
        if token.token not in (pg_query_pb2.SQL_COMMENT, pg_query_pb2.C_COMMENT)
    ]


def _columns(tree: Tree) -> frozenset[int]:
    """Return where columns stand whose table has no schema: their first name is an alias."""
    qualified_by_schema = 3
    return frozenset(
        part.location
        for part in walk(tree)
        if part.DESCRIPTOR.name == "ColumnRef" and len(part.fields) < qualified_by_schema
    )


def _qualified(
    tokens: list[_Token], kept: frozenset[int], target_schema: Callable[[str, str], str]
) -> dict[int, str]:
    found = {}
    for index, token in enumerate(tokens[:-2]):
        follows_dot = index > 0 and tokens[index - 1].kind == _DOT
        if tokens[index + 1].kind != _DOT or follows_dot or not token.is_name:
            continue
        schema = token_name(token.text)
        target = target_schema(schema, token_name(tokens[index + 2].text))
        if target != schema and token.start not in kept:
            found[index] = quoted_names(target)
    return found


def _constants(tokens: list[_Token], changes: Iterable[_Change]) -> dict[int, str]:
    wanted = {quoted_constant(change.before): quoted_constant(change.after) for change in changes}
    return {
        index: wanted[token.text]
        for index, token in enumerate(tokens)
        if token.kind == _CONSTANT and token.text[0] == _QUOTE and token.text in wanted
    }


def _alone(tokens: list[_Token], names: dict[str, str]) -> dict[int, str]:
    """Return names without a dot before or after them that may be schemas."""
    dots = {index for index, token in enumerate(tokens) if token.kind == _DOT}
    return {
        index: quoted_names(names[token_name(token.text)])
        for index, token in enumerate(tokens)
        if token.is_name and token_name(token.text) in names and not dots & {index - 1, index + 1}
    }


def _bare(tokens: list[_Token], schemas: dict[str, str]) -> dict[int, str]:
    """Return names without a dot before or after them that get a schema."""
    dots = {index for index, token in enumerate(tokens) if token.kind == _DOT}
    return {
        index: quoted_names(schemas[token_name(token.text)], token_name(token.text))
        for index, token in enumerate(tokens)
        if token.is_name and token_name(token.text) in schemas and not dots & {index - 1, index + 1}
    }


def _replaced(text: str, tokens: list[_Token], new: dict[int, str]) -> str:
    content = text.encode()
    pieces: list[bytes] = []
    end = 0
    for index in sorted(new):
        pieces += [content[end : tokens[index].start], new[index].encode()]
        end = tokens[index].end
    return b"".join([*pieces, content[end:]]).decode()
