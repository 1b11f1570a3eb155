"""What an expression of a source calls, and whether it may stand on the target. Pure.

No code of a source runs on the target: a copy needs values, not code. An expression may be made
there when all that it names is PostgreSQL's own or of an extension that the target's owner
installed, and when PostgreSQL itself takes it for immutable. Defaults, which no copy computes but a
cut-over wants, and views may also call what is harmless and named here. The probe beside this
module asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pgrepl.syntax.nodes import REG_TYPES, texts
from pgrepl.syntax.parse import Tree, walk

__all__ = [
    "ALLOWED",
    "CATALOG",
    "Called",
    "Name",
    "NameKind",
    "Verdict",
    "foreign",
    "has_computed_sequence",
    "is_constant",
    "judge_called",
    "judge_names",
    "names_used",
]

CATALOG = "pg_catalog"

#: What ``sql/code_reached.sql`` calls a table or view that a query reads.
RELATION = "relation"

NameKind = Literal["function", "operator", "operator class", "type", "collation"]

#: Where names stand in a tree, and what they are names of.
_NAMES: dict[str, tuple[tuple[str, NameKind], ...]] = {
    "A_Expr": (("name", "operator"),),
    "CollateClause": (("collname", "collation"),),
    "FuncCall": (("funcname", "function"),),
    "IndexElem": (("opclass", "operator class"), ("collation", "collation")),
    "PartitionElem": (("opclass", "operator class"), ("collation", "collation")),
    "SortBy": (("use_op", "operator"),),
    "SubLink": (("oper_name", "operator"),),
    "TypeName": (("names", "type"),),
}

#: Functions of PostgreSQL that are not immutable and harmless all the same: they look at nothing
#: but their arguments, the settings of the session, the clock and chance.
_HARMLESS = frozenset(
    {
        *("clock_timestamp", "now", "statement_timestamp", "timeofday", "transaction_timestamp"),
        *("age", "date_bin", "date_part", "date_trunc", "extract", "make_timestamptz", "timezone"),
        *("to_char", "to_date", "to_number", "to_timestamp", "generate_series"),
        *("concat", "concat_ws", "format", "quote_literal", "quote_nullable", "array_to_string"),
        *("to_json", "to_jsonb", "row_to_json", "array_to_json"),
        *("json_build_array", "json_build_object", "jsonb_build_array", "jsonb_build_object"),
        *("json_agg", "json_agg_strict", "jsonb_agg", "jsonb_agg_strict"),
        *("json_object_agg", "jsonb_object_agg", "array_agg", "string_agg"),
        *("random", "random_normal", "gen_random_uuid", "uuidv4", "uuidv7"),
        *("current_database", "current_schema", "pg_current_xact_id", "txid_current"),
    }
)
#: The same of extensions: uuid-ossp and pgcrypto.
_HARMLESS_MEMBERS = frozenset(
    {
        *("uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4"),
        *("gen_random_bytes", "gen_random_uuid", "gen_salt"),
    }
)
#: Of a sequence that stands there by its name; the probe looks whose it is.
_SEQUENCE = frozenset({"currval", "nextval"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be made on the target."""

    #: Why not; None: it may.
    reason: str | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether it may."""
        return self.reason is None


ALLOWED = Verdict()


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A name in an expression; one without a schema is PostgreSQL's own."""

    kind: NameKind
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Called:
    """A row of ``sql/code_reached.sql``: foreign code, or a function that is not immutable."""

    kind: str
    name: str
    is_built_in: bool
    is_member: bool
    #: Whether it is the function of an operator or a cast of PostgreSQL's.
    is_conversion: bool
    #: Whether it is neither PostgreSQL's own nor an extension's.
    is_foreign: bool
    #: Whether a check of a domain calls it.
    is_domain: bool


def names_used(tree: Tree) -> set[Name]:
    """Return everything that a tree names and that may call code."""
    return set(_names(tree))


def _names(tree: Tree) -> Iterator[Name]:
    for part in walk(tree):
        for field, kind in _NAMES.get(part.DESCRIPTOR.name, ()):
            names = texts(getattr(part, field))
            # BETWEEN is no operator's name: it stands for two of them, which are PostgreSQL's own.
            if names and not names[-1].endswith(("BETWEEN", "BETWEEN SYMMETRIC")):
                yield Name(kind, names[-2] if len(names) > 1 else CATALOG, names[-1])
        if part.DESCRIPTOR.name == "Constraint":
            for pair in part.exclusions:
                names = texts(pair.list.items[1].list.items)
                yield Name("operator", names[-2] if len(names) > 1 else CATALOG, names[-1])


def judge_names(asked: Iterable[tuple[Name, bool, bool]]) -> Verdict:
    """Judge names by what the target has: each with whether it is there, and whether harmless."""
    for name, is_there, is_allowed in sorted(asked):
        if not is_there:
            return Verdict(f'{name.kind} "{name.name}" does not exist on the target')
        if not is_allowed:
            return Verdict(foreign(name.kind, name.name))
    return ALLOWED


def judge_called(found: Iterable[Called], *, is_harmless_enough: bool) -> Verdict:
    """Judge what PostgreSQL found that an expression rests on.

    ``is_harmless_enough``: nothing computes it during a copy, so it need not be immutable.
    """
    for item in found:
        if item.is_foreign and item.kind == RELATION:
            return Verdict(f'it reads "{item.name}", which is not the source\'s')
        if item.is_foreign:
            return Verdict(foreign(item.kind, item.name))
        if item.is_domain or not (is_harmless_enough and _is_harmless(item)):
            return Verdict(f'function "{item.name}" is not immutable')
    return ALLOWED


def _is_harmless(item: Called) -> bool:
    if item.is_built_in:
        return item.is_conversion or item.name in _HARMLESS or item.name in _SEQUENCE
    return item.is_member and item.name in _HARMLESS_MEMBERS


def foreign(kind: str, name: str) -> str:
    """Return why something of a source's own may not be called."""
    return f"{kind} \"{name}\" is neither PostgreSQL's own nor an extension's"


def has_computed_sequence(tree: Tree) -> bool:
    """Whether a tree counts up a sequence whose name is computed, so that it could be any."""
    for part in walk(tree):
        if part.DESCRIPTOR.name != "FuncCall" or texts(part.funcname)[-1] not in _SEQUENCE:
            continue
        argument = part.args[0] if len(part.args) == 1 else None
        if argument is not None and argument.HasField("type_cast"):
            if texts(argument.type_cast.type_name.names)[-1] != "regclass":
                return True
            argument = argument.type_cast.arg
        if argument is None or not argument.a_const.HasField("sval"):
            return True
    return False


def is_constant(tree: Tree, own_schemas: Collection[str] = ()) -> bool:
    """Whether an expression is a constant, cast to a type at most: nobody need be asked then.

    A constant that is the name of an object is none: the target may not have that. ``own_schemas``
    are those of the target that hold the source's own types.
    """
    if tree.HasField("a_const"):
        return True
    if not tree.HasField("type_cast"):
        return False
    names = texts(tree.type_cast.type_name.names)
    if names[-1] in REG_TYPES:
        return False
    is_known = len(names) == 1 or names[-2] == CATALOG or names[-2] in own_schemas
    return is_known and is_constant(tree.type_cast.arg, own_schemas)
