"""Ask the target itself whether an expression of a source may be made there.

By its names first: what is neither PostgreSQL's own nor an extension's is never even tried. Then an
empty temporary table with the same columns gets the expression, in a savepoint that is rolled back:
PostgreSQL resolves operators and casts, says whether it is immutable, and writes down what it rests
on. No row is there, so nothing is computed but what PostgreSQL folds: constants under immutable
functions of its own. The source's catalogue is never asked.

Trees that are given here have the target's names, and schemas with all names that are not
PostgreSQL's own, as PostgreSQL prints expressions under ``search_path = pg_catalog``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from pgrepl.catalog.names import relation_exists
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog
from pgrepl.postgres.queries import load_query
from pgrepl.source_code.locale import read_dependence, read_locale, reason_of_locale
from pgrepl.source_code.policy import (
    ALLOWED,
    Called,
    Name,
    Verdict,
    has_computed_sequence,
    is_constant,
    judge_called,
    judge_names,
    names_used,
)
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse, quoted_names, to_sql

__all__ = ["CodeJudge", "Place", "Probe", "read_domain", "read_place"]

_TEMPORARY = "pg_temp"
#: SQLSTATE classes that say something of the expression: unknown names and types, values that a
#: constant cannot have, what expressions of this kind cannot do, limits.
_ABOUT_IT = ("0A", "22", "2B", "42", "54")
_NOT_IMMUTABLE = "42P17"


@dataclass(frozen=True, slots=True)
class Place:
    """A table, domain or view on the target, as expressions in it see it."""

    name: str
    #: Names, and types as SQL writes them, with modifier and collation.
    columns: Sequence[tuple[str, str]]


def read_place(connection: Connection, schema: str, table: str) -> Place | None:
    """Read a table or view of the target; None when there is none of this name."""
    rows = connection.execute(
        "select a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)"
        " || case when a.attcollation not in (0, t.typcollation)"
        " then pg_catalog.format(' collate %%I.%%I', ln.nspname, l.collname) else '' end"
        " from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " join pg_catalog.pg_type t on t.oid = a.atttypid"
        " left join pg_catalog.pg_collation l on l.oid = a.attcollation"
        " left join pg_catalog.pg_namespace ln on ln.oid = l.collnamespace"
        " where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped"
        " order by a.attnum",
        (schema, table),
    )
    columns = tuple(rows.fetchall())
    if not columns and not relation_exists(connection, schema, table):
        return None
    return Place(table, columns)


def read_domain(connection: Connection, schema: str, domain: str) -> Place | None:
    """Read a domain of the target: its checks see a column "value" of the type below it."""
    rows = connection.execute(
        "select 'value', pg_catalog.format_type(d.typbasetype, d.typtypmod)"
        " || case when d.typcollation not in (0, t.typcollation)"
        " then pg_catalog.format(' collate %%I.%%I', ln.nspname, l.collname) else '' end"
        " from pg_catalog.pg_type d join pg_catalog.pg_namespace n on n.oid = d.typnamespace"
        " join pg_catalog.pg_type t on t.oid = d.typbasetype"
        " left join pg_catalog.pg_collation l on l.oid = d.typcollation"
        " left join pg_catalog.pg_namespace ln on ln.oid = l.collnamespace"
        " where n.nspname = %s and d.typname = %s and d.typtype = 'd'",
        (schema, domain),
    )
    columns = tuple(rows.fetchall())
    return Place(domain, columns) if columns else None


class CodeJudge:
    """Judges what a source wants on the target."""

    def __init__(
        self,
        connection: Connection,
        own_schemas: Collection[str],
        source_locale: str | None = None,
    ) -> None:
        """Take a session of the target, and the schemas there that hold the source's own.

        With its locale it is asked whether values are the same on both sides.
        """
        self._connection = connection
        self._own_schemas = list(own_schemas)
        self._source_locale = source_locale

    @contextmanager
    def at(self, place: Place) -> Iterator[Probe]:
        """Make the place for the time of the block; nothing of it stays."""
        with self._connection.transaction(force_rollback=True):
            # The last of the path: else its tables would hide types of PostgreSQL's own.
            self._connection.execute("set local search_path = pg_catalog, pg_temp")
            self._connection.execute("set local check_function_bodies = off")
            # Types are as PostgreSQL printed them, or as its grammar did.
            columns = ", ".join(f"{quoted_names(name)} {kind}" for name, kind in place.columns)
            create = f"create temporary table {quoted_names(place.name)} ({columns})"
            self._connection.execute(create.encode())
            yield Probe(self, self._connection, place)

    def names(self, tree: Tree) -> Verdict:
        """Judge the names in a tree."""
        return self.known(names_used(tree))

    def known(self, given: Iterable[Name]) -> Verdict:
        """Judge names."""
        names = list(given)
        rows = self._connection.execute(
            load_query("pgrepl.source_code", "code_names"),
            {
                "kinds": [name.kind for name in names],
                "schemas": [name.schema for name in names],
                "names": [name.name for name in names],
                "own_schemas": self._own_schemas,
            },
        ).fetchall()
        return judge_names((Name(*row[:3]), row[3], row[4]) for row in rows)

    def view(self, tree: Tree) -> Verdict:
        """Judge a view or materialized view by its CREATE statement."""
        verdict = self.names(tree)
        if not verdict.is_allowed or has_computed_sequence(tree):
            return verdict if not verdict.is_allowed else _COMPUTED
        name, statement = _as_temporary_view(tree)
        with self._connection.transaction(force_rollback=True):
            self._connection.execute("set local search_path = pg_catalog, pg_temp")
            return self.try_out(statement, name, is_harmless_enough=True)

    def is_constant(self, expression: Tree) -> bool:
        """Whether an expression need not be tried at all."""
        return is_constant(expression, self._own_schemas)

    def try_out(self, sql: str, name: str, *, is_harmless_enough: bool) -> Verdict:
        """Run a statement that puts an expression into a temporary relation, and look at it."""
        try:
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(sql.encode())
                return self._look(name, is_harmless_enough=is_harmless_enough)
        except psycopg.Error as exc:
            if exc.sqlstate is None or not exc.sqlstate.startswith(_ABOUT_IT):
                raise
            if exc.sqlstate == _NOT_IMMUTABLE:
                return Verdict("PostgreSQL does not take it for immutable")
            return Verdict(f"PostgreSQL refuses it on the target: {exc.diag.message_primary}")

    def compare_values(self, sql: str, name: str) -> Verdict:
        """Judge a statement that makes a generated column by what its values depend on."""
        here = read_locale(self._connection)
        if self._source_locale in (None, here):
            return ALLOWED
        with self._connection.transaction(force_rollback=True):
            self._connection.execute(sql.encode())
            ((tree,),) = self._connection.execute(
                "select d.adbin::text from pg_catalog.pg_attrdef d"
                " join pg_catalog.pg_class c on c.oid = d.adrelid"
                " where c.relnamespace = pg_catalog.pg_my_temp_schema() and c.relname = %s",
                (name,),
            ).fetchall()
            dependence = read_dependence(self._connection, tree)
        reason = reason_of_locale(dependence, self._source_locale, here)
        return ALLOWED if reason is None else Verdict(f"it is computed by {reason}")

    def _look(self, name: str, *, is_harmless_enough: bool) -> Verdict:
        with self._connection.cursor(row_factory=class_row(Called)) as cursor:
            ((oid,),) = self._connection.execute(
                "select c.oid::bigint from pg_catalog.pg_class c"
                " where c.relnamespace = pg_catalog.pg_my_temp_schema() and c.relname = %s",
                (name,),
            ).fetchall()
            ask_catalog(
                cursor,
                load_query("pgrepl.source_code", "code_reached"),
                {"probe": oid, "own_schemas": self._own_schemas},
            )
            found = cursor.fetchall()
        return judge_called(found, is_harmless_enough=is_harmless_enough)


_COMPUTED = Verdict("it counts up a sequence whose name is computed")


@dataclass(frozen=True, slots=True)
class Probe:
    """An empty table that expressions are tried in."""

    judge: CodeJudge
    connection: Connection
    place: Place

    def expression(self, expression: Tree) -> Verdict:
        """Judge an expression of any type: a check, or one of statistics or of a partition key."""
        if self.judge.is_constant(expression):
            return ALLOWED
        # A function of anything: it makes a condition of a value of any type.
        statement = self._template("create index on x ((1)) where num_nulls(x) = 0")
        condition = statement.index_stmt.where_clause.a_expr
        condition.lexpr.func_call.args[0].CopyFrom(expression)
        return self._try(statement, expression)

    def value(self, expression: Tree, type_sql: str) -> Verdict:
        """Judge the expression of a generated column, which is cast to the column's type."""
        if self.judge.is_constant(expression):
            return ALLOWED
        statement = self._template(
            f"alter table x add column {quoted_names(self._spare_name())} {type_sql}"
            " generated always as (x) stored"
        )
        added = getattr(statement.alter_table_stmt.cmds[0].alter_table_cmd, "def")
        (generated,) = (
            node.constraint
            for node in added.column_def.constraints
            if node.constraint.HasField("raw_expr")
        )
        generated.raw_expr.CopyFrom(expression)
        verdict = self._try(statement, expression)
        if not verdict.is_allowed:
            return verdict
        return self.judge.compare_values(to_sql(statement), self.place.name)

    def default(self, expression: Tree, column: str) -> Verdict:
        """Judge the default of a column of the place."""
        if self.judge.is_constant(expression):
            return ALLOWED
        if has_computed_sequence(expression):
            return _COMPUTED
        statement = self._template("alter table x alter column x set default x")
        command = statement.alter_table_stmt.cmds[0].alter_table_cmd
        command.name = column
        getattr(command, "def").CopyFrom(expression)
        return self._try(statement, expression, is_harmless_enough=True)

    def index(self, create: Tree) -> Verdict:
        """Judge an index by its CREATE INDEX statement."""
        statement = type(create)()
        statement.CopyFrom(create)
        index = statement.index_stmt
        index.relation.CopyFrom(self._relation())
        index.concurrent = False
        index.table_space = ""
        return self._try(statement, create)

    def constraint(self, constraint: Tree) -> Verdict:
        """Judge an exclusion constraint by its definition."""
        statement = self._template("alter table x add constraint x check (x)")
        command = statement.alter_table_stmt.cmds[0].alter_table_cmd
        getattr(command, "def").constraint.CopyFrom(constraint)
        return self._try(statement, constraint)

    def _try(self, statement: Tree, used: Tree, *, is_harmless_enough: bool = False) -> Verdict:
        verdict = self.judge.names(used)
        if not verdict.is_allowed:
            return verdict
        try:
            sql = to_sql(statement)
        except SqlSyntaxError as exc:
            return Verdict(str(exc))
        return self.judge.try_out(sql, self.place.name, is_harmless_enough=is_harmless_enough)

    def _template(self, sql: str) -> Tree:
        (statement,) = parse(sql)
        for field in ("index_stmt", "alter_table_stmt"):
            if statement.HasField(field):
                getattr(statement, field).relation.CopyFrom(self._relation())
        return statement

    def _relation(self) -> Tree:
        sql = f"select from only {quoted_names(_TEMPORARY, self.place.name)}"
        (statement,) = parse(sql)
        return statement.select_stmt.from_clause[0].range_var

    def _spare_name(self) -> str:
        taken = {name for name, _ in self.place.columns}
        names = (f"pgrepl_{number}" for number in range(len(taken) + 1))
        return next(name for name in names if name not in taken)


def _as_temporary_view(tree: Tree) -> tuple[str, str]:
    """Return the name, and the statement that makes a view a temporary one; nothing is computed."""
    (statement,) = parse(f"create view {quoted_names(_TEMPORARY, 'x')} as select 1")
    view = statement.view_stmt
    if tree.HasField("view_stmt"):
        given = tree.view_stmt
        name = given.view.relname
        view.query.CopyFrom(given.query)
        view.aliases.extend(given.aliases)
    else:
        given = tree.create_table_as_stmt
        name = given.into.rel.relname
        view.query.CopyFrom(given.query)
        view.aliases.extend(given.into.col_names)
    view.view.relname = name
    return name, to_sql(statement)
