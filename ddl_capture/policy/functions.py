"""The functions that a statement calls by name: whether they may run on the target.

Constraints, generated columns and indexes are evaluated during replay, with replay's rights. A
function that could read or change what is not the source's own must not be in them. Pure: what the
target has is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree, parse_relation, walk

__all__ = [
    "TargetFunction",
    "called_functions",
    "check_functions",
    "reachable",
    "used_sequences",
]

_CATALOG = "pg_catalog"
_IMMUTABLE = "i"
_VOLATILE = "v"
#: Volatile, and harmless all the same.
_HARMLESS = frozenset(
    {
        *("clock_timestamp", "currval", "gen_random_uuid", "nextval", "random"),
        *("random_normal", "timeofday", "uuidv4", "uuidv7"),
        # of uuid-ossp and pgcrypto
        *("uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4", "gen_random_bytes"),
        *("gen_salt",),
    }
)
_SEQUENCES = frozenset({"currval", "nextval"})
#: Stable functions that look at more than their arguments and the clock.
_NOSY = ("_to_xml", "_to_xmlschema", "_to_xml_and_xmlschema")
_NOSY_STARTS = ("pg_", "has_", "current_setting", "inet_", "to_reg", "col_", "obj_", "row_security")


@dataclass(frozen=True, slots=True)
class TargetFunction:
    """A row of ``sql/functions.sql``."""

    schema: str
    name: str
    volatility: str
    is_member: bool


def called_functions(tree: Tree) -> Iterator[tuple[str | None, str]]:
    """Yield schema and name of each function that a statement calls."""
    for part in walk(tree):
        if part.DESCRIPTOR.name == "FuncCall":
            names = texts(part.funcname)
            yield (names[-2] if len(names) > 1 else None), names[-1]


def used_sequences(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield name and schema, which may be empty, of each sequence that a statement counts up.

    Raises
    ------
    RefusedError
        when the sequence's name is computed, so that it could be any.

    """
    for part in walk(tree):
        if part.DESCRIPTOR.name != "FuncCall" or texts(part.funcname)[-1] not in _SEQUENCES:
            continue
        argument = part.args[0] if len(part.args) == 1 else None
        if argument is not None and argument.HasField("type_cast"):
            argument = argument.type_cast.arg
        if argument is None or not argument.a_const.HasField("sval"):
            raise RefusedError("the name of a sequence must stand in the statement as it is")
        schema, name = parse_relation(argument.a_const.sval.sval)
        yield name, schema


def reachable(
    tree: Tree, functions: Sequence[TargetFunction], path: Collection[str]
) -> Sequence[TargetFunction]:
    """Return those of the functions that the statement's calls can mean."""
    calls = set(called_functions(tree))
    places = {_CATALOG, *path}
    return [
        function
        for function in functions
        if (function.schema, function.name) in calls
        or ((None, function.name) in calls and function.schema in places)
    ]


def check_functions(
    tree: Tree,
    functions: Sequence[TargetFunction],
    own_schemas: Collection[str],
    *,
    is_own_code_foreign: bool,
) -> None:
    """Refuse a statement, with the target's names, that calls what it must not.

    ``is_own_code_foreign``: functions come from the source as well, so that what theirs do is
    unknown.

    Raises
    ------
    RefusedError
        naming the function.

    """
    for schema, name in called_functions(tree):
        for function in functions:
            if function.name != name or (schema is not None and function.schema != schema):
                continue
            if not _is_allowed(function, own_schemas, is_own_code_foreign=is_own_code_foreign):
                raise RefusedError(f'function "{name}" must not be called by what replay evaluates')


def _is_allowed(
    function: TargetFunction, own_schemas: Collection[str], *, is_own_code_foreign: bool
) -> bool:
    if function.name in _HARMLESS and (function.is_member or function.schema == _CATALOG):
        return True
    if function.schema == _CATALOG or function.is_member:
        is_nosy = function.name.endswith(_NOSY) or function.name.startswith(_NOSY_STARTS)
        return function.volatility != _VOLATILE and not (
            is_nosy and function.volatility != _IMMUTABLE
        )
    return function.schema in own_schemas and not is_own_code_foreign
