"""Judge the target. Every function is pure: facts in, a finding out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psycopg.sql import SQL, Identifier, Literal

from pgrepl.config.naming import IDENTIFIER_BYTES
from pgrepl.doctor.checks.source.source_checks import check_encryption, check_version
from pgrepl.doctor.checks.target.code_checks import check_source_code
from pgrepl.doctor.checks.target.owner_checks import check_schema_owners
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.source_facts import SourceFacts
from pgrepl.doctor.target_facts import TargetFacts, TargetServer
from pgrepl.errors import SchemaVersionError
from pgrepl.store.migrations import check_schema_version
from pgrepl.store.sources import move_schema

__all__ = ["check_target"]

#: A table, its table for big values and the index of that, and a sequence.
_LOCKS_PER_TABLE = 4

#: From this version on origins are counted by a setting of their own.
_OWN_ORIGIN_LIMIT = 180000


def check_target(
    target: TargetFacts,
    sources: Mapping[str, SourceFacts] | None,
    *,
    origins: Sequence[str],
    trusted: Collection[str],
    target_schemas: Mapping[tuple[str, str], str] | None,
) -> list[Finding]:
    """Run every check of the target.

    ``sources`` are those that could be read, ``origins`` the names of all sources' origins,
    ``trusted`` the sources that may bring code, and ``target_schemas`` where each (source, schema)
    goes; sources and schemas are None where a source that was asked for could not be read.
    """
    server = target.server
    if sources is None or target_schemas is None:
        unread = "cannot be checked before all sources can be read and their schemas have names"
        about_sources = [
            Finding.skipped(check, unread)
            for check in ("existing-schemas", "extensions", "locks", "other-database")
        ]
    else:
        about_sources = [
            check_existing_schemas(target, target_schemas),
            check_extensions(server, sources),
            check_locks(server, sources),
            check_other_database(server, sources),
        ]
    return [
        check_version(server.version_num),
        check_encryption(is_private=server.is_private),
        check_writable(server),
        check_create_privilege(server),
        check_origin_functions(target),
        check_replica_role(server),
        check_lz4(server),
        check_target_encoding(server),
        check_origins(server, origins),
        check_replication_schema(target),
        check_schema_owners(target),
        *check_source_code(target, trusted),
        *about_sources,
    ]


def check_writable(server: TargetServer) -> Finding:
    """A standby cannot be a target."""
    if not server.is_read_only:
        return Finding.ok("writable", "accepts writes")
    return Finding(
        "writable",
        Status.FAILURE,
        "accepts no writes: it is a standby, or default_transaction_read_only is on",
        Remedy(then="name the primary in the DSN, with target_session_attrs=read-write"),
    )


def check_create_privilege(server: TargetServer) -> Finding:
    """Schemas are made in the target database."""
    if server.may_create:
        return Finding.ok("create-privilege", f'role "{server.role}" may make schemas')
    return Finding(
        "create-privilege",
        Status.FAILURE,
        f'role "{server.role}" may not make schemas in database "{server.dbname}"',
        Remedy.of(
            SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                Identifier(server.dbname), Identifier(server.role)
            )
        ),
    )


def check_origin_functions(target: TargetFacts) -> Finding:
    """The position in the source's WAL is kept by a replication origin."""
    closed = target.closed_functions
    if not closed:
        return Finding.ok("origin-functions", "replication origins can be used")
    role = Identifier(target.server.role)
    # The signatures come from pg_proc, where PostgreSQL quoted them.
    statements = [f"GRANT EXECUTE ON FUNCTION {name} TO {role.as_string()}" for name in closed]
    return Finding(
        "origin-functions",
        Status.FAILURE,
        f'role "{target.server.role}" may not call {listed(closed, 1)}',
        Remedy(sql=tuple(statements)),
        tuple(closed),
    )


def check_replica_role(server: TargetServer) -> Finding:
    """Triggers and foreign keys of the target stay quiet while changes are applied."""
    if server.may_set_replica_role:
        return Finding.ok("replica-role", "session_replication_role can be set")
    return Finding(
        "replica-role",
        Status.FAILURE,
        f'role "{server.role}" may not set session_replication_role,'
        " so triggers and foreign keys would fire",
        Remedy.of(
            SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(
                Identifier(server.role)
            )
        ),
    )


def check_lz4(server: TargetServer) -> Finding:
    """The spool is compressed with lz4."""
    if server.has_lz4:
        return Finding.ok("lz4", "the server compresses with lz4")
    return Finding(
        "lz4",
        Status.FAILURE,
        "the server was built without lz4, which compresses the spool",
        Remedy(then="use a server built with --with-lz4, as all packages are"),
    )


def check_target_encoding(server: TargetServer) -> Finding:
    """Only UTF8 holds the characters of every source."""
    if server.encoding == "UTF8":
        return Finding.ok("encoding", "the database is in UTF8")
    return Finding(
        "encoding",
        Status.FAILURE,
        f"the database is in {server.encoding}, which cannot hold every source's characters",
        Remedy.of(
            SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'").format(
                Identifier(_with_suffix(server.dbname, "_utf8"))
            ),
            then=f'name database "{_with_suffix(server.dbname, "_utf8")}" in the DSN of the target',
        ),
    )


def check_origins(server: TargetServer, wanted: Sequence[str]) -> Finding:
    """One origin per source."""
    missing = [origin for origin in wanted if origin not in server.origins]
    free = server.max_origins - len(server.origins)
    if len(missing) <= free:
        return Finding.ok("origins", f"{free} of {server.max_origins} replication origins are free")
    setting = (
        SQL("max_active_replication_origins")
        if server.version_num >= _OWN_ORIGIN_LIMIT
        else SQL("max_replication_slots")
    )
    return Finding(
        "origins",
        Status.FAILURE,
        f"{len(missing)} more replication origins are needed, {max(free, 0)} are free",
        Remedy.of(
            SQL("ALTER SYSTEM SET {} = {}").format(
                setting,
                Literal(len(server.origins) + len(missing) + 10),
            ),
            then="restart the server",
        ),
    )


def check_replication_schema(target: TargetFacts) -> Finding:
    """The schema that holds pgrepl's state."""
    try:
        check_schema_version(target.schema_version)
    except SchemaVersionError as exc:
        rename = SQL("ALTER SCHEMA replication RENAME TO {}").format(
            Identifier(_free_name("replication", target.server.schemas))
        )
        return Finding(
            "replication-schema",
            Status.FAILURE,
            exc.message.removeprefix("target: "),
            Remedy.of(rename) if target.schema_version is None else Remedy(then="upgrade pgrepl"),
        )
    if not target.schema_version:
        return Finding.ok("replication-schema", 'schema "replication" will be made when needed')
    return Finding.ok(
        "replication-schema", f'schema "replication" has version {target.schema_version}'
    )


def check_existing_schemas(
    target: TargetFacts, target_schemas: Mapping[tuple[str, str], str]
) -> Finding:
    """Pgrepl writes into no schema that it did not make."""
    foreign = sorted(
        schema
        for (source, _), schema in target_schemas.items()
        if schema in target.server.schemas and target.own_schemas.get(schema) != source
    )
    if not foreign:
        return _check_places(target, target_schemas)
    return Finding(
        "existing-schemas",
        Status.FAILURE,
        f"schemas exist that pgrepl did not make for this source: {listed(foreign)}",
        Remedy.of(
            *(
                SQL("ALTER SCHEMA {} RENAME TO {}").format(
                    Identifier(schema), Identifier(_free_name(schema, target.server.schemas))
                )
                for schema in foreign
            ),
            then='or choose other names with schema = "..." in pgrepl.toml',
        ),
        tuple(foreign),
    )


def _check_places(target: TargetFacts, target_schemas: Mapping[tuple[str, str], str]) -> Finding:
    """Copies are where the configuration would make them now."""
    moved = {
        (source, schema): (there, wanted)
        for (source, schema), wanted in target_schemas.items()
        if (there := target.places.get((source, schema), wanted)) != wanted
    }
    if not moved:
        return Finding.ok("existing-schemas", "no schema is in the way")
    names = tuple(
        f'schema "{schema}" of source "{source}" is in "{there}", the configuration says "{wanted}"'
        for (source, schema), (there, wanted) in moved.items()
    )
    return Finding(
        "existing-schemas",
        Status.WARNING,
        f"copies stay where they were made: {listed(names)}",
        Remedy.of(
            *(move_schema(there, wanted) for there, wanted in moved.values()),
            then="while replay and resyncs of the source are stopped; or correct the name",
        ),
        names,
    )


def check_extensions(server: TargetServer, sources: Mapping[str, SourceFacts]) -> Finding:
    """The extensions that replicated tables depend on."""
    needed = sorted({name for facts in sources.values() for name in facts.extensions})
    missing = [name for name in needed if name not in server.installed_extensions]
    if not missing:
        return Finding.ok(
            "extensions", f"installed: {', '.join(needed)}" if needed else "none used"
        )
    here = [name for name in missing if name in server.available_extensions]
    absent = [name for name in missing if name not in here]
    statements = [
        SQL("CREATE EXTENSION IF NOT EXISTS {} CASCADE").format(Identifier(name)) for name in here
    ]
    then = f"install the packages of {', '.join(absent)} on its machine" if absent else None
    return Finding(
        "extensions",
        Status.FAILURE,
        f"replicated tables need extensions that are missing: {listed(missing)}",
        Remedy.of(*statements, then=then),
        tuple(missing),
    )


def check_locks(server: TargetServer, sources: Mapping[str, SourceFacts]) -> Finding:
    """All tables of a source are made in one transaction, which locks each of them."""
    room = server.locks_per_transaction * server.lock_holders
    count, name = max(
        ((len(facts.tables), name) for name, facts in sources.items()), default=(0, "")
    )
    if count * _LOCKS_PER_TABLE <= room:
        return Finding.ok("locks", f"one transaction can lock {room} objects")
    wanted = -(-count * _LOCKS_PER_TABLE // server.lock_holders)
    return Finding(
        "locks",
        Status.WARNING,
        f"source {name} has {count} tables; one transaction can lock {room} objects, a table may"
        f" be {_LOCKS_PER_TABLE}",
        Remedy.of(
            SQL("ALTER SYSTEM SET max_locks_per_transaction = {}").format(Literal(wanted)),
            then="restart the server",
        ),
    )


def _free_name(schema: str, taken: Sequence[str]) -> str:
    """Return a name for a schema that is to make room."""
    endings = ("_old", *(f"_old{number}" for number in range(2, 1000)))
    names = (_with_suffix(schema, ending) for ending in endings)
    return next(name for name in names if name not in taken)


def _with_suffix(name: str, suffix: str) -> str:
    """Append to a name what PostgreSQL would cut off if the name were longer."""
    room = IDENTIFIER_BYTES - len(suffix)
    return name.encode()[:room].decode(errors="ignore") + suffix


def check_other_database(server: TargetServer, sources: Mapping[str, SourceFacts]) -> Finding:
    """A database cannot flow into itself."""
    here = (server.system_identifier, server.dbname)
    same = [
        name
        for name, facts in sources.items()
        if (facts.server.system_identifier, facts.server.dbname) == here
    ]
    if not same:
        return Finding.ok("other-database", "is none of the sources")
    return Finding(
        "other-database",
        Status.FAILURE,
        f"is the same database as source {listed(same)}, and would replicate its own copy",
        Remedy(then="name another database in the DSN of the target"),
    )
