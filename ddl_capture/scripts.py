"""The statements that make, switch and remove the capture on a source: run, or printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg.sql import SQL, Composed, Identifier

from pgrepl.postgres.queries import load_query

__all__ = [
    "FUNCTIONS",
    "TABLES",
    "TRIGGERS",
    "Statement",
    "grants",
    "horizon_statement",
    "install_script",
    "query",
    "switch_script",
    "uninstall_script",
]

_PACKAGE = "pgrepl.ddl_capture"
_EVENTS = ("ddl_command_start", "table_rewrite", "sql_drop", "ddl_command_end")
TRIGGERS = tuple(f"pgrepl_{event}_{step}" for event in _EVENTS for step in (0, 1))
#: What the capture has in its schema.
TABLES = ("ddl_log", "capture")
FUNCTIONS = (
    "ddl_capture",
    "ddl_context",
    "ddl_calls",
    "table_definition",
    "plain_table_definition",
    "locale",
    "homonyms",
    "switch",
    "prune",
)
#: The settings of pgrepl's own sessions that change what PostgreSQL prints of a structure.
_PLAIN: tuple[LiteralString, ...] = (
    "search_path = pg_catalog, pg_temp",
    "quote_all_identifiers = off",
    "standard_conforming_strings = on",
    "datestyle = 'ISO, YMD'",
    "intervalstyle = 'postgres'",
    "extra_float_digits = 3",
    "bytea_output = 'hex'",
    "timezone = 'UTC'",
    "lc_monetary = 'C'",
)

Statement = SQL | Composed


def query(name: str) -> LiteralString:
    """Return a statement of the folder ``sql``."""
    return load_query(_PACKAGE, name)


def install_script(reader: str | None) -> Sequence[Sequence[Statement]]:
    """Return the statements that install the capture, by transaction.

    ``reader`` may look at it afterwards, and switch it.
    """
    parts: list[Statement] = [
        SQL(query("note_altered")),
        SQL(query("drop_triggers")),
        SQL("create schema if not exists pgrepl"),
        SQL(query("check_schema")),
        SQL(query("tables")),
        SQL(query("steering")),
        SQL(_definition_function("table_definition", ())),
        SQL(_definition_function("plain_table_definition", _PLAIN)),
        SQL(
            "create or replace function pgrepl.locale() returns text language sql stable"
            " as $function$\n" + load_query("pgrepl.source_code", "locale") + "$function$"
        ),
        SQL(
            "create or replace function pgrepl.homonyms() returns text language sql stable"
            " as $function$\n" + query("homonyms") + "$function$"
        ),
        *(grants(reader) if reader is not None else ()),
        SQL(query("install")),
    ]
    return [parts, [horizon_statement()]]


def grants(reader: str) -> Sequence[Composed]:
    """Return what the role that runs pgrepl needs of the capture."""
    role = Identifier(reader)
    return [
        SQL("grant usage on schema pgrepl to {}").format(role),
        SQL("grant select on pgrepl.ddl_log to {}").format(role),
        SQL("grant select, update on pgrepl.capture to {}").format(role),
        SQL("grant execute on function pgrepl.switch(boolean), pgrepl.prune() to {}").format(role),
    ]


def horizon_statement() -> SQL:
    """Return the statement to run once the triggers are visible to all sessions."""
    return SQL(query("horizon"))


def switch_script(*, is_on: bool) -> Sequence[Sequence[Statement]]:
    """Return the statements that enable or disable the triggers, by transaction."""
    if is_on:
        altered: list[Statement] = [SQL(query("note_altered"))]
        altered += [
            SQL("alter event trigger {} enable always").format(Identifier(name))
            for name in TRIGGERS
        ]
        return [altered, [horizon_statement()]]
    return [[SQL(query("disable_triggers")), SQL(query("note_off"))]]


def uninstall_script() -> Sequence[Sequence[Statement]]:
    """Return the statements that remove the capture, by transaction.

    The triggers go first: nobody's DDL waits while the rest waits for a transaction that wrote into
    the log.
    """
    rest: list[Statement] = [SQL("set local lock_timeout = '5s'")]
    rest += [SQL("drop table if exists pgrepl.{}").format(Identifier(name)) for name in TABLES]
    rest += [
        SQL("drop function if exists pgrepl.{}").format(Identifier(name)) for name in FUNCTIONS
    ]
    return [[SQL(query("drop_triggers"))], [*rest, SQL(query("drop_schema"))]]


def _definition_function(name: LiteralString, settings: Sequence[LiteralString]) -> LiteralString:
    """Return what makes a function of the query; unlike one in SQL it keeps its plan."""
    return (
        f"create or replace function pgrepl.{name}(rel oid) returns json language plpgsql stable"
        + "".join(f" set {setting}" for setting in settings)
        + " as $function$\nbegin\n    return (\n"
        + query("table_definition")
        + "    );\nend\n$function$"
    )
