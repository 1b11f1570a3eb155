"""Domains that are on the target with code of the source, as older versions brought them.

A column of such a domain would run it with every row. When a statement uses one, its checks and
default are judged like new ones, and what is not allowed is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.ddl_capture.apply.target_session import PLAIN, Environment
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.policy.judge import Question, ask, under
from pgrepl.postgres.queries import load_query
from pgrepl.store.skipped_code import SkippedCode, record_skipped
from pgrepl.syntax.parse import Tree, print_type, walk

__all__ = ["clean_domains"]

#: What PostgreSQL brings has lower numbers (``FirstNormalObjectId``), and is no domain of a source.
_FIRST_NORMAL_OID = 16384


@dataclass(frozen=True, slots=True)
class _Domain:
    """A row of ``sql/domains.sql``."""

    schema: str
    name: str
    base: str
    check_name: str
    check_expression: str | None
    default_expression: str | None


def clean_domains(target: Workspace, tree: Tree) -> None:
    """Take code off the domains that a statement with the target's names uses."""
    for domain in _used(target, tree):
        if domain.check_expression is not None:
            question = Question(
                expressions=[domain.check_expression],
                place="value",
                columns=[("value", domain.base)],
            )
            statement = SQL("alter domain {} drop constraint if exists {}").format(
                Identifier(domain.schema, domain.name), Identifier(domain.check_name)
            )
            _drop_unless_allowed(target, domain, "domain check", question, statement.as_string())
        if domain.default_expression is not None:
            question = Question(
                expressions=[domain.default_expression],
                place="value",
                type_sql=domain.base,
                is_harmless_enough=True,
            )
            statement = SQL("alter domain {} drop default").format(
                Identifier(domain.schema, domain.name)
            )
            _drop_unless_allowed(target, domain, "domain default", question, statement.as_string())


def _used(target: Workspace, tree: Tree) -> Sequence[_Domain]:
    schemas = list(target.names.schemas.values())
    types = {
        print_type(part) for part in walk(tree) if part.DESCRIPTOR.name == "TypeName" and part.names
    }
    if not types:
        return []
    with under(target.connection, Environment(target.search_path)):
        rows = target.connection.execute(
            "select pg_catalog.to_regtype(name)::oid::bigint"
            " from pg_catalog.unnest(%s::text[]) name",
            (sorted(types),),
        ).fetchall()
    oids = [oid for (oid,) in rows if oid is not None and oid >= _FIRST_NORMAL_OID]
    if not oids:
        return []
    with (
        under(target.connection, PLAIN),
        target.connection.cursor(row_factory=class_row(_Domain)) as cursor,
    ):
        return cursor.execute(
            load_query("pgrepl.ddl_capture", "domains"), {"types": oids, "schemas": schemas}
        ).fetchall()


def _drop_unless_allowed(
    target: Workspace, domain: _Domain, kind: str, question: Question, statement: str
) -> None:
    own = list(target.names.schemas.values())
    verdict = ask(target.connection, PLAIN, own, question)
    if verdict.reason is None:
        return
    target.connection.execute(statement.encode())
    sources = {there: here for here, there in target.names.schemas.items()}
    code = SkippedCode(
        kind=kind,
        schema_name=sources[domain.schema],
        table_name=domain.name,
        name=domain.check_name if kind == "domain check" else "",
        definition=question.expressions[0],
        reason=verdict.reason,
    )
    record_skipped(target.connection, target.source_id, [code])
    target.notes.append(f"dropped {kind} {code.shown}: {code.reason}")
