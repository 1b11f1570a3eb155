"""Whether tables of a source can have the names on the target that its rules give them."""

from __future__ import annotations

from pgrepl.catalog.rule_facts import RuleProblem
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import NameClashError, check_target_tables, shown_name
from pgrepl.errors import ConfigError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["check_names", "find_name_problems"]


def check_names(connection: Connection, source: SourceConfig) -> None:
    """Make sure that the tables of a source can have the names that its rules give them.

    Raises
    ------
    ConfigError
        naming what is in the way.

    """
    problems = [item for item in find_name_problems(connection, source) if item.is_failure]
    if problems:
        raise ConfigError(
            f'the rules of source "{source.name}" cannot hold: {"; ".join(map(str, problems))}',
            hint="Choose other names in pgrepl.toml, or exclude the tables; see docs/rules.md.",
        )


def find_name_problems(connection: Connection, source: SourceConfig) -> list[RuleProblem]:
    """Return what is wrong with the names that rules give to tables, by the source's catalogue."""
    names = source.rules.table_names
    if not names:
        return []
    rows = connection.execute(
        load_query("pgrepl.catalog", "names_of_schemas"),
        {"schemas": sorted({schema for schema, _ in names})},
    ).fetchall()
    tables = {
        (schema, name): users
        for schema, name, is_table, root, users in rows
        if is_table and source.selection.matches(*root)
    }
    others = {(schema, name) for schema, name, is_table, *_ in rows if not is_table}
    problems = [
        RuleProblem(shown_name(*key), "no such table is replicated", is_failure=False)
        for key in names
        if key not in tables
    ]
    made = {key: name for key, name in names.items() if key in tables}
    problems += [
        RuleProblem(
            shown_name(*key),
            f'cannot have another name: column "{tables[key][0]}" is of its row type',
        )
        for key in made
        if tables[key]
    ]
    try:
        check_target_tables(made, [*tables, *others])
    except NameClashError as exc:
        problems.append(RuleProblem("names", str(exc)))
    return problems
