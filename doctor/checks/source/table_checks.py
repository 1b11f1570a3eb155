"""Judge the replicated tables of a source. Every function is pure: facts in, a finding out."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import SQL, Composed, Identifier

from pgrepl.catalog.unique_keys import sent_identity
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.doctor.checks.source.future_checks import check_future_tables
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.source_facts import SQL_ASCII, SourceFacts, SourceTable
from pgrepl.terminal import counted

__all__ = ["check_tables"]


def check_tables(facts: SourceFacts, selection: TableSelection) -> list[Finding]:
    """Run every check of the replicated tables."""
    if facts.server.encoding == SQL_ASCII:
        return [Finding.skipped("tables", "cannot be read from a database in SQL_ASCII")]
    if not facts.tables:
        return [
            Finding(
                "tables",
                Status.FAILURE,
                "no table matches the patterns of this source",
                Remedy(then="correct tables and exclude in pgrepl.toml"),
            )
        ]
    return [
        Finding.ok("tables", _extent(facts)),
        check_select_privilege(facts),
        check_future_tables(facts, selection),
        check_row_security(facts),
        check_replica_identity(facts.tables),
        check_unlogged(facts.tables),
    ]


def _extent(facts: SourceFacts) -> str:
    tables, schemas = len(facts.tables), len(facts.schemas)
    return f"{counted(tables, 'table')} in {counted(schemas, 'schema')}"


def check_select_privilege(facts: SourceFacts) -> Finding:
    """The copy reads every table and every sequence."""
    closed = [table for table in facts.tables if not (table.may_use_schema and table.may_select)]
    objects = [table.name for table in closed]
    objects += [shown_name(schema, name) for schema, name in facts.unreadable_sequences]
    if not objects:
        return Finding.ok("select-privilege", "every table and sequence can be read")
    role = Identifier(facts.server.role)
    closed_schemas = {table.schema for table in closed if not table.may_use_schema}
    statements = [
        SQL("GRANT USAGE ON SCHEMA {} TO {}").format(Identifier(schema), role)
        for schema in sorted(closed_schemas)
    ]
    # Table by table: a grant on the whole schema would open what was skipped on purpose.
    statements += [
        SQL("GRANT SELECT ON {} TO {}").format(Identifier(table.schema, table.table), role)
        for table in closed
    ]
    statements += [
        SQL("GRANT SELECT ON SEQUENCE {} TO {}").format(Identifier(schema, name), role)
        for schema, name in facts.unreadable_sequences
    ]
    return Finding(
        "select-privilege",
        Status.FAILURE,
        f'role "{facts.server.role}" may not read {listed(objects)}',
        Remedy.of(*statements),
        tuple(objects),
    )


def check_row_security(facts: SourceFacts) -> Finding:
    """Row security would skip rows in the copy silently."""
    hidden = [table.name for table in facts.tables if table.hides_rows]
    if not hidden:
        return Finding.ok("row-security", "no policy hides rows")
    return Finding(
        "row-security",
        Status.FAILURE,
        f'row security may hide rows from role "{facts.server.role}" in {listed(hidden)}',
        Remedy.of(SQL("ALTER ROLE {} BYPASSRLS").format(Identifier(facts.server.role))),
        tuple(hidden),
    )


def check_replica_identity(tables: Sequence[SourceTable]) -> Finding:
    """Without an identity, UPDATE and DELETE leave no trace in the stream; only INSERT does."""
    lacking = [(table, reason) for table in tables if (reason := _lacks_identity(table))]
    accepted = [table.name for table, _ in lacking if table.is_append_only]
    refused = [(table, reason) for table, reason in lacking if not table.is_append_only]
    if refused:
        objects = [f"{table.name} ({reason})" for table, reason in refused]
        return Finding(
            "replica-identity",
            Status.FAILURE,
            f"UPDATE and DELETE would vanish: {listed(objects)}",
            Remedy.of(
                *(_give_identity(table) for table, _ in refused),
                then="or, for tables that are only inserted into, name them in append_only"
                " of pgrepl.toml",
            ),
            tuple(objects),
        )
    if accepted:
        return Finding(
            "replica-identity",
            Status.OK,
            f"{counted(len(accepted), 'append-only table')} ({listed(accepted)}); UPDATE and DELETE"
            " of every other table are in the stream",
            objects=tuple(accepted),
        )
    return Finding.ok("replica-identity", "UPDATE and DELETE of every table are in the stream")


def _lacks_identity(table: SourceTable) -> str | None:
    """Say why a table has no identity, or None when it has one."""
    # Rows live in the partitions, whose own identity counts; unlogged tables send nothing at all.
    if table.is_partitioned or table.is_unlogged or table.replica_identity == "f":
        return None
    if table.replica_identity == "n":
        return "identity NOTHING"
    if sent_identity(table.replica_identity, table.keys) is not None:
        return None
    if table.replica_identity == "i":
        return "its identity index does not exist"
    is_deferrable = any(key.is_primary for key in table.keys)
    return "deferrable primary key" if is_deferrable else "no primary key"


def _give_identity(table: SourceTable) -> Composed:
    """Choose the cheapest identity that the table can have."""
    name = Identifier(table.schema, table.table)
    if sent_identity("d", table.keys) is not None:
        return SQL("ALTER TABLE {} REPLICA IDENTITY DEFAULT").format(name)
    for key in table.keys:
        if key.is_immediate and key.is_not_null:
            return SQL("ALTER TABLE {} REPLICA IDENTITY USING INDEX {}").format(
                name, Identifier(key.name)
            )
    return SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(name)


def check_unlogged(tables: Sequence[SourceTable]) -> Finding:
    """Unlogged tables write no WAL, so nothing of them is in the stream."""
    unlogged = [table for table in tables if table.is_unlogged]
    if not unlogged:
        return Finding.ok("unlogged-tables", "there are none")
    names = tuple(table.name for table in unlogged)
    return Finding(
        "unlogged-tables",
        Status.WARNING,
        f"unlogged tables write no WAL and are not replicated: {listed(names)}",
        Remedy.of(
            *(
                SQL("ALTER TABLE {} SET LOGGED").format(Identifier(table.schema, table.table))
                for table in unlogged
            ),
            then="or exclude them in pgrepl.toml",
        ),
        names,
    )
