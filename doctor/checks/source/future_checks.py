"""Judge whether tables that a source gets from now on can be read. Pure: facts in, finding out."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg.sql import SQL, Composed, Identifier

from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.source_facts import SourceFacts

__all__ = ["check_future_tables"]


def check_future_tables(facts: SourceFacts, selection: TableSelection) -> Finding:
    """The stream carries a new table whatever its grants; a resync and verify have to read it."""
    role = facts.server.role
    if facts.server.reads_everything:
        return Finding.ok("future-tables", f'role "{role}" reads every table, new ones too')
    # A grant for every schema would open those that were excluded on purpose.
    takes_schemas = selection.takes_new_schemas and not selection.exclude
    lacking = [
        owner
        for owner in facts.owners
        if selection.takes_new_tables(owner.schema)
        and not (
            owner.opens_schemas if takes_schemas else owner.opens_tables and owner.opens_sequences
        )
    ]
    if not lacking:
        return Finding.ok("future-tables", "tables and sequences made from now on can be read")
    owners = list(dict.fromkeys(owner.owner for owner in lacking))
    places = None if takes_schemas else [(owner.owner, owner.schema) for owner in lacking]
    statements = (
        [text for owner in owners for text in _open_everywhere(owner, role)]
        if places is None
        else [text for owner, schema in places for text in _open_schema(owner, schema, role)]
    )
    everything = SQL("GRANT pg_read_all_data TO {}").format(Identifier(role)).as_string()
    return Finding(
        "future-tables",
        Status.WARNING,
        f'role "{role}" will not be able to read tables and sequences that {listed(owners)} makes'
        " from now on: they are replicated, but cannot be verified or copied again",
        Remedy.of(
            *statements,
            then=f"or let it read whatever anybody makes, in every schema: {everything}",
        ),
        tuple(owners) if places is None else tuple(shown_name(schema) for _, schema in places),
        is_offered=True,
    )


def _open_schema(owner: str, schema: str, role: str) -> Iterator[Composed]:
    for kind in (SQL("TABLES"), SQL("SEQUENCES")):
        yield SQL(
            "ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT SELECT ON {} TO {}"
        ).format(Identifier(owner), Identifier(schema), kind, Identifier(role))


def _open_everywhere(owner: str, role: str) -> Iterator[Composed]:
    for right in (
        SQL("USAGE ON SCHEMAS"),
        SQL("SELECT ON TABLES"),
        SQL("SELECT ON SEQUENCES"),
    ):
        yield SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT {} TO {}").format(
            Identifier(owner), right, Identifier(role)
        )
