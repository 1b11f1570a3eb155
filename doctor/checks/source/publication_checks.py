"""Judge the publications of a source that is read through pgoutput. Pure."""

from __future__ import annotations

from psycopg.sql import SQL, Identifier

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.source_facts import SourceFacts
from pgrepl.publications.plan import guard_statements, publish_statements
from pgrepl.publications.tables import Publications
from pgrepl.terminal import command

__all__ = ["check_publications"]


def check_publications(
    source: SourceConfig, facts: SourceFacts, found: Publications | None
) -> Finding:
    """Every table is published as far as it can be, and no statement fails because of it."""
    if found is None:
        return Finding.ok("publications", f"{source.plugin} needs none")
    statements = publish_statements(source, found, facts.server.version_num, is_superuser=True)
    publish = Remedy.of(*guard_statements(), *statements)
    refused = tuple(shown_name(*table.key) for table in found.refused())
    if refused:
        why = (
            "the server refuses UPDATE and DELETE of published tables without a replica identity:"
            f" {listed(refused)}"
        )
        return Finding("publications", Status.FAILURE, why, publish, refused)
    missing = tuple(shown_name(*table.key) for table in found.unpublished(source.selection))
    if facts.slot is not None and missing:
        then = f"then copy them again: {command('resync', source.name, *missing[:3])}"
        why = f"changes of tables are not sent, because they are not published: {listed(missing)}"
        return Finding("publications", Status.FAILURE, why, Remedy(publish.sql, then=then), missing)
    if facts.slot is None and statements:
        if found.state.is_superuser:
            return Finding.ok("publications", "basebackup publishes the tables")
        why = "tables are not published, and only a superuser can publish all that will be made"
        return Finding("publications", Status.FAILURE, why, publish, missing)
    return _check_counting(source, facts, found) or _check_upkeep(
        found, publish, is_current=not statements
    )


def _check_upkeep(found: Publications, publish: Remedy, *, is_current: bool) -> Finding:
    if not found.state.is_guarded:
        why = (
            "no event trigger keeps the publications: new tables are not published, and UPDATE and"
            " DELETE of a table that loses its replica identity fail"
        )
    elif not found.state.may_read_notes:
        why = (
            "this role may not read which tables were published late (pgrepl.joined_late): changes"
            " that were not sent before that stay unnoticed"
        )
    elif not is_current:
        why = "the publications were made for other tables than the configuration selects"
    else:
        return Finding.ok("publications", "all tables are published")
    return Finding("publications", Status.WARNING, why, publish, is_offered=True)


def _check_counting(
    source: SourceConfig, facts: SourceFacts, found: Publications
) -> Finding | None:
    uncounted = tuple(shown_name(*table.key) for table in found.uncounted(source.selection))
    if not uncounted:
        return None
    why = (
        "track_counts is off: nobody would know of UPDATE and DELETE of tables without a replica"
        f" identity: {listed(uncounted)}"
    )
    statement = SQL("ALTER DATABASE {} SET track_counts = on")
    remedy = Remedy.of(statement.format(Identifier(facts.server.dbname)))
    return Finding("publications", Status.FAILURE, why, remedy, uncounted)
