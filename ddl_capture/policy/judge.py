"""Ask the target whether code of a captured statement may be made there, as it resolves names.

The names and constants in a statement mean what the source's search path and settings make of
them, so the target is asked under these. First in a rule on a temporary table: PostgreSQL finds
functions, operators and casts and writes down what the rule rests on, and computes nothing. Only
what rests on no code but PostgreSQL's own and that of extensions is then tried where PostgreSQL
demands that it be immutable. All of it is rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from psycopg import errors
from psycopg.sql import SQL, Identifier

from pgrepl.ddl_capture.apply.target_session import Environment, put_in_force
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog
from pgrepl.postgres.queries import load_query
from pgrepl.source_code.locale import Dependence, read_dependence, read_locale
from pgrepl.source_code.policy import Verdict
from pgrepl.source_code.probe import CodeJudge
from pgrepl.syntax.parse import Tree, parse, quoted_names, to_sql

__all__ = [
    "Literals",
    "Question",
    "ask",
    "ask_view",
    "find_foreign",
    "read_literals",
    "read_type_default",
    "under",
]

_VALUE = "pgrepl_value"
_RULE = "pgrepl_rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Expressions as SQL, and what they see; with the target's names."""

    expressions: Sequence[str]
    #: What the place is called, and the types of its columns.
    place: str
    columns: Sequence[tuple[str, str]] = field(default=())
    #: The type that the value is stored in; None: whatever it has.
    type_sql: str | None = None
    #: Whether nothing computes it as long as rows come from the source.
    is_harmless_enough: bool = False


def ask(
    connection: Connection,
    environment: Environment,
    own_schemas: Collection[str],
    question: Question,
) -> Verdict:
    """Return whether the expressions may be made on the target."""
    judge = CodeJudge(connection, own_schemas)
    try:
        with _probe(connection, environment, question):
            verdict = judge.try_out(
                _rule(question), question.place, is_harmless_enough=question.is_harmless_enough
            )
            if not verdict.is_allowed or question.is_harmless_enough:
                return verdict
            return judge.try_out(_index(question), question.place, is_harmless_enough=False)
    except errors.InvalidSchemaName as exc:
        # Named in a text constant, which is data and keeps the source's names.
        return Verdict(f"PostgreSQL refuses it on the target: {exc.diag.message_primary}")


def ask_view(
    connection: Connection, environment: Environment, own_schemas: Collection[str], view: Tree
) -> Verdict:
    """Return whether a view may be made on the target, by its CREATE statement."""
    (create,) = parse(f"create temporary view {_RULE} as select 1")
    create.view_stmt.query.CopyFrom(view.query)
    create.view_stmt.aliases.extend(view.aliases)
    judge = CodeJudge(connection, own_schemas)
    with under(connection, environment):
        return judge.try_out(to_sql(create), _RULE, is_harmless_enough=True)


@contextmanager
def under(connection: Connection, environment: Environment) -> Iterator[None]:
    """Put an environment in force for the time of the block, and roll back what is done in it."""
    # Last of all, where it hides nothing; a path without it has it first.
    path = [*environment.path, "pg_temp"]
    with connection.transaction(force_rollback=True):
        put_in_force(connection, replace(environment, path=path))
        yield


@contextmanager
def _probe(connection: Connection, environment: Environment, question: Question) -> Iterator[None]:
    with under(connection, environment):
        columns = [f"{quoted_names(name)} {kind}" for name, kind in question.columns]
        if question.type_sql is not None:
            columns.append(f"{_VALUE} {question.type_sql}")
        connection.execute(
            f"create temporary table {_probe_name(question)} ({', '.join(columns)})".encode()
        )
        yield


def _probe_name(question: Question) -> str:
    return quoted_names("pg_temp", question.place)


def _rule(question: Question) -> str:
    """Return a rule with the expressions: PostgreSQL looks at it, and computes nothing."""
    values = ", ".join(f"({expression})" for expression in question.expressions)
    columns = ", ".join(["tableoid", *(quoted_names(name) for name, _ in question.columns)])
    probe = _probe_name(question)
    # Expressions, types and names are as PostgreSQL's own grammar printed them.
    rows = f"(select {columns} from {probe}) as {quoted_names(question.place)}"  # noqa: S608
    query = f"select {values} from {rows}"  # noqa: S608
    if question.type_sql is not None:
        query = f"insert into {probe} ({_VALUE}) {query}"
    return f"create rule {_RULE} as on update to {probe} do instead {query}"


def _index(question: Question) -> str:
    """Return a statement that PostgreSQL refuses of what is not immutable.

    It looks at the expression with all casts in it, which it does not in a generated column.
    """
    cast = f"::{question.type_sql}" if question.type_sql else ""
    parts = [f"(({expression}){cast}) is not null" for expression in question.expressions]
    return f"create index on {_probe_name(question)} ((1)) where {' and '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Literals:
    """The row of ``sql/literals.sql``: what the values of expressions depend on."""

    #: Functions that read the constants in them, of those that are not immutable.
    readers: frozenset[str]
    #: Whether they depend on the rules of a locale, or on the encoding.
    dependence: Dependence
    #: Whether they convert values by way of their texts, some of which depend on settings.
    is_converted: bool
    #: The locale of the target's database.
    locale: str


def read_literals(connection: Connection, environment: Environment, question: Question) -> Literals:
    """Return what else than their arguments the values of expressions depend on."""
    with _probe(connection, environment, question):
        connection.execute(_rule(question).encode())
        with connection.cursor() as cursor:
            ask_catalog(
                cursor,
                load_query("pgrepl.ddl_capture", "literals"),
                {"place": question.place, "rule": _RULE},
            )
            (found,) = cursor.fetchall()
        readers, rule, is_converted = found
        return Literals(
            frozenset(readers),
            read_dependence(connection, rule),
            is_converted,
            read_locale(connection),
        )


def read_type_default(
    connection: Connection, path: Sequence[str], type_sql: str
) -> tuple[bool, str | None]:
    """Return whether a type is a domain, and the default that columns of it have, if any."""
    with under(connection, Environment(path)):
        rows = connection.execute(
            "select t.typtype = 'd', pg_catalog.pg_get_expr(t.typdefaultbin, 0)"
            " from pg_catalog.pg_type t where t.oid = pg_catalog.to_regtype(%s)",
            (type_sql,),
        ).fetchall()
    return rows[0] if rows else (False, None)


def find_foreign(
    connection: Connection, path: Sequence[str], what: str, names: Sequence[Sequence[str]]
) -> Verdict | None:
    """Return what is wrong with functions or operator classes that are named; None: nothing.

    A name without a schema may mean any that the path leads to.
    """
    table, column, schema = _NAMED[what]
    for *schemas, name in names:
        places = schemas[-1:] or ["pg_catalog", *path]
        rows = connection.execute(
            SQL(
                "select o.oid < 16384 or exists (select from pg_catalog.pg_depend d"
                " where d.classid = o.tableoid and d.objid = o.oid and d.deptype = 'e')"
                " from pg_catalog.{} o join pg_catalog.pg_namespace n on n.oid = o.{}"
                " where o.{} = %s and n.nspname = any (%s)"
            ).format(Identifier(table), Identifier(schema), Identifier(column)),
            (name, places),
        ).fetchall()
        if not rows:
            return Verdict(f'{what} "{name}" does not exist on the target')
        if not all(is_known for (is_known,) in rows):
            return Verdict(f"{what} \"{name}\" is neither PostgreSQL's own nor an extension's")
    return None


_NAMED = {
    "function": ("pg_proc", "proname", "pronamespace"),
    "operator class": ("pg_opclass", "opcname", "opcnamespace"),
}
