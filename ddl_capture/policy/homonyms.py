"""Whether an expression may mean what the source has of its own under a name of PostgreSQL's. Pure.

The target resolves names too, but has no functions, operators and casts of the source: it finds
those of PostgreSQL, computes other values, and calls them immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pgrepl.ddl_capture.decode.event import Homonyms
from pgrepl.ddl_capture.policy.functions import called_functions
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree, walk

__all__ = ["reason_of_homonyms"]

_CATALOG = "pg_catalog"
#: What words of the grammar stand for.
_WORDS = {
    "BETWEEN": (">=", "<="),
    "NOT BETWEEN": ("<", ">"),
    "BETWEEN SYMMETRIC": (">=", "<="),
    "NOT BETWEEN SYMMETRIC": ("<", ">"),
}


def reason_of_homonyms(expressions: Sequence[Tree], homonyms: Homonyms | None) -> str | None:
    """Return what expressions may mean on the source alone; None: nothing.

    Without an expression it is a conversion of a column by a cast. ``homonyms`` are None in what a
    capture of an older version wrote down.
    """
    if expressions and all(map(_is_text, expressions)):
        return None
    functions = {name for item in expressions for name in _unqualified(called_functions(item))}
    operators = {name for item in expressions for name in _operators(item)}
    if homonyms is None:
        is_plain = not functions and not operators
        return None if is_plain else "names that an older capture says nothing about"
    if functions & set(homonyms.functions):
        return "a function that the source may have of its own"
    if operators & set(homonyms.operators):
        return "an operator that the source may have of its own"
    return "a cast that the source may have of its own" if homonyms.has_casts else None


def _is_text(expression: Tree) -> bool:
    """Whether it is a constant that a type reads, without a cast."""
    constant = expression.a_const
    return bool(expression.HasField("a_const") and (constant.isnull or constant.HasField("sval")))


def _unqualified(names: Iterable[tuple[str | None, str]]) -> Iterator[str]:
    return (name for schema, name in names if schema != _CATALOG)


def _operators(expression: Tree) -> Iterator[str]:
    for part in walk(expression):
        if part.DESCRIPTOR.name == "A_Expr":
            *schema, name = texts(part.name)
            if schema[-1:] != [_CATALOG]:
                yield from _WORDS.get(name, (name,))
        elif part.DESCRIPTOR.name == "CaseExpr" and part.HasField("arg"):
            yield "="
