"""Whether the conditions by which rules filter rows can be exact for the tables that there are.

A condition has to give the same whenever it is evaluated: in a copy, and for each change by what
the change carries. Whether it does, PostgreSQL says: it lets a generated column be made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.catalog.tables import PLAIN_TYPES
from pgrepl.config.model import SourceConfig
from pgrepl.masking import condition
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.queries import load_query
from pgrepl.syntax.filters import filter_columns
from pgrepl.syntax.parse import SqlSyntaxError

__all__ = ["FilterFacts", "find_filter_problems", "judge_filter"]

_Name = tuple[str, str]

#: The first oid of what is not PostgreSQL's own.
_FIRST_OF_USERS = 16384
_PROBE = Identifier("pg_temp", "pgrepl_filter")
_RESULT = Identifier("pgrepl_is_true")
#: Why PostgreSQL does not take an expression, and why it cannot be asked: a standby, no privilege.
_TOLD = ("0A", "22", "25", "42")


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """A row of ``sql/filter_columns.sql``."""

    schema: str
    table: str
    is_partitioned: bool
    is_full: bool
    has_identity: bool
    names: Sequence[str]
    types: Sequence[str]
    odd_names: Sequence[str]
    generated_names: Sequence[str]
    collated_names: Sequence[str]
    reshaped_names: Sequence[str]
    float_names: Sequence[str]
    #: Those that are not of the replica identity.
    other_names: Sequence[str]

    @property
    def key(self) -> _Name:
        """Schema and name of the table."""
        return self.schema, self.table


def find_filter_problems(
    connection: Connection, source: SourceConfig, tables: Iterable[_Name]
) -> list[tuple[_Name, str]]:
    """Return why rows of tables cannot be filtered, by their names on the source."""
    problems: list[tuple[_Name, str]] = []
    for where, keys in _by_condition(source, tables).items():
        try:
            columns = filter_columns(where)
        except SqlSyntaxError as exc:
            problems += [(key, f"{_shown(where)} cannot be a filter: {exc}") for key in keys]
            continue
        asked: dict[tuple[str, ...], str | None] = {}
        for facts in _read_facts(connection, keys, columns):
            reasons = list(judge_filter(facts, columns, source))
            if not reasons:
                shape = (*facts.names, *facts.types)
                if shape not in asked:
                    asked[shape] = _ask(source, where, facts)
                reasons = [reason for reason in [asked[shape]] if reason is not None]
            problems += [(facts.key, f"{_shown(where)} {reason}") for reason in reasons]
    return problems


def _by_condition(source: SourceConfig, tables: Iterable[_Name]) -> Mapping[str, list[_Name]]:
    found: dict[str, list[_Name]] = {}
    for key in tables:
        where = source.rules.where(*key)
        if where:
            found.setdefault(where, []).append(key)
    return found


def _read_facts(
    connection: Connection, keys: Sequence[_Name], columns: Iterable[str]
) -> Sequence[FilterFacts]:
    with connection.cursor(row_factory=class_row(FilterFacts)) as cursor:
        return cursor.execute(
            load_query("pgrepl.catalog", "filter_columns"),
            {
                "schemas": [schema for schema, _ in keys],
                "tables": [table for _, table in keys],
                "columns": list(columns),
                "plain_types": list(PLAIN_TYPES),
            },
        ).fetchall()


def judge_filter(facts: FilterFacts, columns: Iterable[str], source: SourceConfig) -> Iterable[str]:
    """Return why a condition over some columns cannot be exact for a table. Pure."""
    missing = sorted(set(columns) - set(facts.names))
    if missing:
        yield f'names column "{missing[0]}", which is not there'
        return
    for name in facts.odd_names:
        yield f'names column "{name}", which is not of one of the types that a filter can read'
    for name in facts.generated_names:
        yield f'names column "{name}", which is generated'
    for name in facts.collated_names:
        yield f'names column "{name}", which has a collation of its own'
    if source.plugin == "wal2json":
        lost = () if source.special_floats == "exact" else facts.float_names
        for name in (*facts.reshaped_names, *lost):
            yield f'names column "{name}", of a type that wal2json does not print as it is'
    if facts.is_partitioned or facts.is_full or not facts.has_identity:
        # Changes carry whole rows, or there are none but inserts.
        return
    for name in facts.other_names:
        yield (
            f'names column "{name}", which is not of the replica identity: changes would not say'
            " which rows they are of; use ALTER TABLE ... REPLICA IDENTITY FULL"
        )


def _ask(source: SourceConfig, where: str, facts: FilterFacts) -> str | None:
    """Have PostgreSQL judge a condition, in a session that may write; return why it is none."""
    try:
        with (
            connect(source.endpoint, "rules") as session,
            session.transaction(force_rollback=True),
        ):
            session.execute("set transaction read write")
            session.execute(_probe(where, facts).as_bytes(session))
            rows = session.execute(
                "select pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)"
                " from pg_attrdef f join pg_depend d on d.classid = 'pg_attrdef'::regclass"
                " and d.objid = f.oid where f.adrelid = 'pg_temp.pgrepl_filter'::regclass"
                " and d.refobjid <> f.adrelid and d.refobjid >= %s",
                (_FIRST_OF_USERS,),
            ).fetchall()
    except psycopg.Error as exc:
        if not (exc.sqlstate or "").startswith(_TOLD):
            raise
        return f"cannot be a filter: {exc.diag.message_primary}"
    return f"rests on {rows[0][0]}, which is not PostgreSQL's own" if rows else None


def _probe(where: str, facts: FilterFacts) -> Composed:
    columns = [
        SQL("{} {}").format(Identifier(name), SQL(type_name))
        for name, type_name in zip(facts.names, facts.types, strict=True)
    ]
    result = SQL("{} boolean generated always as {} stored").format(_RESULT, condition(where))
    return SQL("create temporary table {} ({})").format(_PROBE, SQL(", ").join([*columns, result]))


def _shown(where: str) -> str:
    return f'the condition "{where}"'
