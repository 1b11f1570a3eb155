"""What is to be copied and what it will be called, checked before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.schema.code.rehearsal import judge_dump
from pgrepl.basebackup.schema.code.without_code import Reduced, without_code
from pgrepl.basebackup.schema.dump import read_dump
from pgrepl.basebackup.schema.errors import SchemaError
from pgrepl.basebackup.schema.known import Known, without_known
from pgrepl.basebackup.schema.omitted import without_omitted
from pgrepl.basebackup.schema.plan import SchemaPlan
from pgrepl.basebackup.schema.source_objects import SourceObjects, read_objects
from pgrepl.basebackup.schema.statements.classify import sift
from pgrepl.catalog.names import existing_schemas, extension_schemas
from pgrepl.catalog.rule_facts import check_rules
from pgrepl.catalog.table_names import check_names
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import NameClashError, assign_target_schemas, is_system_schema
from pgrepl.errors import ConfigError, SourceError, TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.source_code.locale import read_locale
from pgrepl.syntax.remap import ConfinedMap, RemapError, SchemaMap, remap

__all__ = [
    "Preparation",
    "TargetSide",
    "check_extensions",
    "check_target",
    "plan_schema",
    "prepare",
]


@dataclass(frozen=True, slots=True)
class Preparation:
    """The objects to copy, and the schema that each of theirs becomes."""

    objects: SourceObjects
    schemas: Mapping[str, str]


def prepare(connection: Connection, source: SourceConfig, options: CopyOptions) -> Preparation:
    """Read what is to be copied and name its schemas.

    Raises
    ------
    ConfigError
        when no table is selected of those that there are, or names clash.

    """
    with translated(source.endpoint, "cannot read the catalogue"):
        objects = read_objects(
            connection,
            source.selection,
            options.selection,
            rules=source.rules,
            with_views=options.with_views,
            with_code=source.trust_code,
        )
        ((dbname,),) = connection.execute("select current_database()").fetchall()
        check_rules(connection, source)
        check_names(connection, source)
    # One that has nothing but what pgrepl made there is empty.
    others = [table for table in objects.other_tables if not is_system_schema(table.schema)]
    if not objects.tables and others:
        raise ConfigError(
            f'no table of source "{source.name}" matches the patterns',
            hint="Correct tables and exclude in pgrepl.toml, or --tables.",
        )
    try:
        assigned = assign_target_schemas([(source.name, dbname, source.schema, objects.schemas)])
    except NameClashError as exc:
        raise ConfigError(
            str(exc), hint=f'Set another schema = "..." for source "{source.name}" in pgrepl.toml.'
        ) from exc
    return Preparation(objects, {schema: target for (_, schema), target in assigned.items()})


def check_target(
    connection: Connection, endpoint: Endpoint, preparation: Preparation
) -> dict[str, str]:
    """Return the schemas of the target's extensions, if nothing there is in the way.

    Raises
    ------
    TargetError
        when a schema exists, or an extension is missing.

    """
    with translated(endpoint, "cannot read the catalogue"):
        taken = existing_schemas(connection, preparation.schemas.values())
    if taken:
        names = ", ".join(taken)
        raise TargetError(
            f"{endpoint}: schemas exist that pgrepl did not make for this source: {names}",
            hint='Rename or drop them, or choose other names with schema = "..." in pgrepl.toml.',
        )
    return check_extensions(connection, endpoint, preparation)


def check_extensions(
    connection: Connection, endpoint: Endpoint, preparation: Preparation
) -> dict[str, str]:
    """Return the schemas of the target's extensions, if it has all that are needed.

    Raises
    ------
    TargetError
        when one is missing.

    """
    with translated(endpoint, "cannot read the catalogue"):
        extensions = extension_schemas(connection)
    missing = sorted(preparation.objects.extensions - extensions.keys())
    if missing:
        statements = [
            SQL("CREATE EXTENSION {}").format(Identifier(name)).as_string() for name in missing
        ]
        raise TargetError(
            f"{endpoint}: replicated tables need extensions that are missing: {', '.join(missing)}",
            hint=f"Run there: {'; '.join(statements)}.",
        )
    return extensions


@dataclass(frozen=True, slots=True)
class TargetSide:
    """The target, which is asked what may be made there."""

    endpoint: Endpoint
    connection: Connection
    #: Its extensions and their schemas.
    extensions: Mapping[str, str]


def plan_schema(
    source: SourceConfig,
    connection: Connection,
    preparation: Preparation,
    options: CopyOptions,
    *,
    snapshot: str | None,
    target: TargetSide,
    known: Known | None = None,
) -> SchemaPlan:
    """Dump the schema, take out what calls code of the source, and sort the rest.

    What is known, because the target has it, is taken out as well.

    Raises
    ------
    SourceError
        when a statement cannot be made to work on the target.

    """
    objects = preparation.objects
    if not objects.schemas:
        # An empty source: its tables join by DDL, or by a resync.
        return SchemaPlan()
    dump = read_dump(
        source.endpoint,
        connection.info.server_version // 10000,
        sorted(objects.schemas),
        excluded_tables=[
            table.key for table in objects.other_tables if table.schema in objects.schemas
        ],
        snapshot=snapshot,
        lock_timeout_s=options.lock_timeout_s,
    )
    members = objects.member_schemas(target.extensions)
    # What a dump prints is the source's word: without its code no name leads to another's schema.
    kind = SchemaMap if source.trust_code else ConfinedMap
    names = kind(preparation.schemas, members)
    try:
        dump, omitted = without_omitted(dump, objects.tables)
        if source.trust_code:
            reduced = Reduced(dump, objects)
        else:
            with translated(source.endpoint, "cannot read the locale"):
                locale = read_locale(connection)
            with translated(target.endpoint, "cannot try out the schema"):
                refused = judge_dump(target.connection, dump, objects, members, locale)
            reduced = without_code(dump, objects, refused)
        rest = without_known(reduced.dump, known or Known())
        plan = sift(
            rest.dump, reduced.objects, names, with_all_indexes=bool(options.with_all_indexes)
        )
        plan.attach += [remap(tree, names, dump.texts.find(tree)).sql for tree in rest.attach]
    except (SchemaError, RemapError) as exc:
        hint = exc.hint if isinstance(exc, SchemaError) else None
        raise SourceError(f"{source.endpoint}: {exc}", hint=hint) from exc
    plan.skipped += reduced.skipped
    plan.left_out += (*reduced.left_out, *omitted)
    return plan
