"""Whether rules can hold for the tables that there are, on the source or in their copies.

A mask must leave alone what tells rows apart, and what the target checks or computes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg.rows import class_row
from psycopg.sql import SQL

from pgrepl.catalog.row_filters import find_filter_problems
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.config.rules import Mask, Rules
from pgrepl.errors import ConfigError
from pgrepl.masking import HASH_DIGITS
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "ColumnFacts",
    "RuleProblem",
    "check_rules",
    "find_problems",
    "find_source_problems",
    "judge_column",
]

_Name = tuple[str, str]

#: What PostgreSQL adds to the length of a varchar.
_HEADER = 4


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A row of ``sql/rule_columns.sql``."""

    schema: str
    table: str
    name: str
    type: str
    #: ``pg_type.typtype``.
    type_kind: str
    #: None: a type that is not PostgreSQL's own.
    type_name: str | None
    type_modifier: int
    is_not_null: bool
    is_generated: bool
    is_partition_key: bool
    #: ``pg_constraint.contype`` before each name.
    constraints: Sequence[str]
    referenced_by: Sequence[str]
    #: Before each name k: tells rows apart, u: of columns alone, e: others.
    unique_indexes: Sequence[str]
    generated_from_it: Sequence[str]
    #: Whether its table is one of a composite type.
    is_typed: bool = False
    #: The number of columns that its table has.
    column_count: int = 0

    @property
    def key(self) -> _Name:
        """Schema and name of its table."""
        return self.schema, self.table


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A rule that cannot hold, or that is for nothing."""

    table: str
    reason: str
    #: Else it is worth a look.
    is_failure: bool = True
    #: Whether nothing could be done with changes: they could not find their rows, or not be judged.
    stops_receive: bool = False

    def __str__(self) -> str:
        """Return it for a message."""
        return f"{self.table}: {self.reason}"


def check_rules(connection: Connection, source: SourceConfig) -> None:
    """Make sure that the rules of a source can hold for its tables.

    Raises
    ------
    ConfigError
        naming each that cannot.

    """
    problems = [
        problem for problem in find_source_problems(connection, source) if problem.is_failure
    ]
    if problems:
        raise ConfigError(
            f'the rules of source "{source.name}" cannot hold: {"; ".join(map(str, problems))}',
            hint="Choose other rules in pgrepl.toml, or exclude the tables; see docs/rules.md.",
        )


def find_source_problems(connection: Connection, source: SourceConfig) -> list[RuleProblem]:
    """Return what is wrong with the rules of a source, by its catalogue."""
    if not source.rules.has_effects:
        return []
    rows = connection.execute(
        "select n.nspname::text, c.relname::text, c.relispartition,"
        " array(select array[pn.nspname::text, p.relname::text]"
        " from pg_inherits h join pg_class p on p.oid = h.inhparent"
        " join pg_namespace pn on pn.oid = p.relnamespace where h.inhrelid = c.oid)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where c.relkind in ('r', 'p') and c.relpersistence <> 't' order by 1, 2"
    ).fetchall()
    selection = source.selection
    parents = {(schema, name): [(p, q) for p, q in links] for schema, name, _, links in rows}
    above = {(schema, name): tuple(links[0]) for schema, name, is_part, links in rows if is_part}
    roots = {key: _root(key, above) for key in parents}
    tables = {key: key for key in parents if selection.matches(*roots[key])}
    problems = find_problems(connection, source.rules, tables)
    problems += [
        RuleProblem(shown_name(*key), why, stops_receive=True)
        for key, why in find_filter_problems(connection, source, tables)
    ]
    for key in tables:
        for parent in parents[key]:
            if source.rules.treatment(*key) != source.rules.treatment(*parent):
                why = f"it has other rules than {shown_name(*parent)}, which it is a part of"
                problems.append(RuleProblem(shown_name(*key), why))
    for entry in source.rules.entries:
        if (entry.masks or entry.where) and not any(entry.matches(*key) for key in tables):
            listed = ", ".join(pattern.text for pattern in entry.tables)
            why = "a rule is for no table that is replicated"
            problems.append(RuleProblem(listed, why, is_failure=False))
    return problems


def _root(key: _Name, above: Mapping[_Name, _Name]) -> _Name:
    """Return the root of a partition, by which it is selected; any other table is its own."""
    while key in above:
        key = above[key]
    return key


def find_problems(
    connection: Connection, rules: Rules, places: Mapping[_Name, _Name]
) -> list[RuleProblem]:
    """Return what is wrong with the masks of tables, by name on the source and by place here."""
    wanted = [
        (key, place, column) for key, place in places.items() for column in rules.masks_of(*key)
    ]
    if not wanted:
        return []
    with connection.cursor(row_factory=class_row(ColumnFacts)) as cursor:
        rows = cursor.execute(
            load_query("pgrepl.catalog", "rule_columns"),
            {
                "schemas": [place[0] for _, place, _ in wanted],
                "tables": [place[1] for _, place, _ in wanted],
                "columns": [column for _, _, column in wanted],
            },
        ).fetchall()
    found = {(row.key, row.name): row for row in rows}
    problems: list[RuleProblem] = []
    for key, place, column in wanted:
        facts = found.get((place, column))
        name, mask = shown_name(*key), rules.masks_of(*key)[column]
        if facts is None:
            why = f'it has no column "{column}"'
            problems.append(RuleProblem(name, why, is_failure=False))
            continue
        omitted = rules.omitted(*key)
        kept = [other for other in facts.generated_from_it if other not in omitted]
        facts = replace(facts, generated_from_it=kept)
        there = [other for other in omitted if (place, other) in found]
        if column == min(there, default=None) and facts.column_count == len(there):
            problems.append(RuleProblem(name, "all of its columns are omitted"))
        problems += [
            RuleProblem(name, f'column "{column}" {why}', stops_receive=is_identity)
            for why, is_identity in judge_column(mask, facts)
        ]
        if mask.kind == "constant" and not _is_printed_alike(connection, facts.type, mask.text):
            why = f'column "{column}" is of type {facts.type}, which prints "{mask.text}" otherwise'
            problems.append(RuleProblem(name, why))
    return problems


def judge_column(mask: Mask, facts: ColumnFacts) -> Iterable[tuple[str, bool]]:
    """Return why a mask cannot hold for a column, and whether rows could not be found any more."""
    if mask.kind == "omit":
        yield from _judge_omitted(facts)
        return
    yield from _judge_place(facts)
    yield from ((why, False) for why in _judge_values(mask, facts))


def _of_kind(named: Sequence[str], kind: str) -> list[str]:
    return [name[1:] for name in named if name[0] == kind]


def _judge_omitted(facts: ColumnFacts) -> Iterable[tuple[str, bool]]:
    """Look at what cannot be without a column; all else that names it goes with it."""
    yield from _judge_identity(facts)
    if facts.generated_from_it:
        yield f'is what column "{facts.generated_from_it[0]}" is generated from', False
    if facts.is_typed:
        yield "is of a table of a type, which has all columns of that", False


def _judge_identity(facts: ColumnFacts) -> Iterable[tuple[str, bool]]:
    if _of_kind(facts.unique_indexes, "k") or _of_kind(facts.constraints, "p"):
        yield "is part of the key that tells rows apart", True
    elif facts.is_partition_key:
        yield "decides into which partition a row goes", True


def _judge_place(facts: ColumnFacts) -> Iterable[tuple[str, bool]]:
    """Look at what no mask of any kind can stand in for."""
    yield from _judge_identity(facts)
    if facts.is_generated:
        yield "is generated", False
    if facts.generated_from_it:
        yield f'is what column "{facts.generated_from_it[0]}" is generated from', False
    if facts.type_kind == "d":
        yield f"is of the domain {facts.type}, which may not allow the mask", False
    checks = [_of_kind(facts.constraints, kind) for kind in "cx"]
    for name in (*checks[0], *checks[1], *_of_kind(facts.unique_indexes, "e")):
        yield f'is in "{name}", which values that are masked may violate', False
    if facts.referenced_by:
        yield f'is referenced by foreign key "{facts.referenced_by[0]}"', False


def _judge_values(mask: Mask, facts: ColumnFacts) -> Iterable[str]:
    """Look at whether the values of a mask are allowed."""
    if mask.kind == "null":
        if facts.is_not_null:
            yield "is NOT NULL, and the mask is null"
        return
    for name in _of_kind(facts.constraints, "f"):
        yield f'is in foreign key "{name}"'
    if mask.kind == "hash" and not _holds_hash(facts):
        yield f"is of type {facts.type}; a hash needs text, or varchar of {HASH_DIGITS}"
    if mask.kind == "constant":
        for name in _of_kind([*facts.constraints, *facts.unique_indexes], "u"):
            yield f'is unique by "{name}", and the mask is one constant'
        if facts.type_name == "bytea":
            yield "is of type bytea, which can be null only"


def _holds_hash(facts: ColumnFacts) -> bool:
    is_long = facts.type_modifier < 0 or facts.type_modifier >= HASH_DIGITS + _HEADER
    return facts.type_name == "text" or (facts.type_name == "varchar" and is_long)


def _is_printed_alike(connection: Connection, type_name: str, text: str) -> bool:
    """Whether a constant is what the type prints for it: else copy and changes would differ."""
    try:
        with connection.transaction():
            # The type as PostgreSQL itself printed it, under a path that has nothing of others.
            statement = SQL("select (%s::{})::text").format(SQL(type_name.replace("%", "%%")))
            ((printed,),) = connection.execute(statement, (text,)).fetchall()
    except psycopg.errors.DataError:
        return False
    return bool(printed == text)
