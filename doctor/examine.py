"""Examine sources, target and this machine in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from pgrepl.background import BackgroundCall
from pgrepl.catalog.rule_facts import RuleProblem, find_source_problems
from pgrepl.catalog.table_names import find_name_problems
from pgrepl.catalog.writers import Writer, read_writers
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import NameClashError, assign_target_schemas
from pgrepl.doctor import machine
from pgrepl.doctor.checks.source.capture_checks import CaptureFacts, check_capture, read_capture
from pgrepl.doctor.checks.source.generated_checks import check_generated_columns
from pgrepl.doctor.checks.source.orphaned_slot_checks import check_orphaned_slots
from pgrepl.doctor.checks.source.publication_checks import check_publications
from pgrepl.doctor.checks.source.rule_checks import check_rules
from pgrepl.doctor.checks.source.source_checks import (
    MINIMUM_VERSION,
    check_server,
    check_version,
    is_probe_possible,
)
from pgrepl.doctor.checks.source.stream_checks import examine_stream
from pgrepl.doctor.checks.source.table_checks import check_tables
from pgrepl.doctor.checks.target.name_checks import check_table_names
from pgrepl.doctor.checks.target.orphaned_source_checks import check_orphaned_sources
from pgrepl.doctor.checks.target.passed_over_checks import check_passed_over
from pgrepl.doctor.checks.target.spark_checks import check_closed
from pgrepl.doctor.checks.target.target_checks import check_target
from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status
from pgrepl.doctor.generated_facts import GeneratedColumns, read_generated
from pgrepl.doctor.plugin_probe import PluginState, Probe, probe_plugin
from pgrepl.doctor.source_facts import SourceFacts, read_source
from pgrepl.doctor.target_facts import TargetFacts, read_target
from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.tables import Publications, read_publications
from pgrepl.spark.session import local_cores
from pgrepl.terminal import counted

__all__ = ["examine"]

F = TypeVar("F")

_STAGE = "doctor"


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read from a source."""

    facts: SourceFacts
    #: None when the source was not ready for it.
    probe: Probe | None
    writers: Sequence[Writer]
    capture: CaptureFacts
    #: None when the plugin needs none.
    publications: Publications | None
    rule_problems: Sequence[RuleProblem]
    #: None when their values are sent.
    generated: GeneratedColumns | None


@dataclass(frozen=True, slots=True)
class _Visit(Generic[F]):
    """What came of going to one database."""

    #: What is known without reading anything: that it answers, or why not.
    findings: tuple[Finding, ...]
    psql_conninfo: str | None = None
    clock: machine.ClockReading | None = None
    #: None when it could not be read.
    facts: F | None = None


def examine(
    config: Config,
    sources: Sequence[SourceConfig],
    environment: Mapping[str, str],
    *,
    spark: bool | None,
) -> list[Examination]:
    """Run every check. A server that does not answer is a finding, not an error.

    ``spark``: whether a job is run; None: where there is more to it than Java, on a cluster.
    """
    java = machine.check_java(environment)
    is_left_out = spark is None and local_cores(config.spark.master) is not None
    spark = not is_left_out if spark is None else spark
    probe = machine.SparkProbe(config.spark) if spark and java.status is Status.OK else None
    try:
        examinations, seen_from_here = _examine_databases(config, sources)
        here = [machine.check_config_file(config), *seen_from_here, java]
        if probe is not None:
            here.append(probe.finding())
        elif spark:
            here.append(Finding.skipped("spark", "cannot be tried without Java"))
        elif is_left_out:
            master = config.spark.shown_master
            here.append(Finding.skipped("spark", f"not started on {master}; --spark tries it"))
        settings = probe.settings if probe is not None else None
        here += check_closed(config.spark, settings, is_tried=spark)
    except BaseException:
        if probe is not None:
            probe.cancel()
        raise
    return [*examinations, Examination(Area.HERE, "here", tuple(here))]


def _examine_databases(
    config: Config, sources: Sequence[SourceConfig]
) -> tuple[list[Examination], list[Finding]]:
    """Examine sources and target; the second list is what they say about this machine."""
    # Dead servers are waited for at the same time, not one after the other; Ctrl-C waits for none.
    owners = {source.name: source.owner_role for source in sources}
    selections = {source.name: source.selection for source in sources if source.is_database}
    names = [(source.name, *key) for source in sources for key in source.rules.table_names]
    asking_target = BackgroundCall(
        lambda: _visit(
            config.target.endpoint,
            partial(read_target, owners=owners, selections=selections, names=names),
        )
    )
    streams = [source for source in sources if not source.is_database]
    sources = [source for source in sources if source.is_database]
    asking = [BackgroundCall(partial(_visit_source, source)) for source in sources]
    asking_streams = [BackgroundCall(partial(examine_stream, source)) for source in streams]
    visits = {source.name: call.result() for source, call in zip(sources, asking, strict=True)}
    target = asking_target.result()
    schemas, names_finding = _assign(sources, visits)
    locale = target.facts.locale if target.facts is not None else None
    examinations = [
        _examine_source(config, source, visits[source.name], locale) for source in sources
    ]
    examinations += [call.result() for call in asking_streams]
    examinations.append(_examine_target(config, target, visits, schemas))
    clocks = [target.clock, *(visit.clock for visit in visits.values())]
    versions = [v.facts.facts.server.version_num for v in visits.values() if v.facts is not None]
    return examinations, [
        names_finding,
        machine.check_clocks([clock for clock in clocks if clock is not None]),
        machine.check_pg_dump(versions),
    ]


def _visit(endpoint: Endpoint, read: Callable[[Connection], F]) -> _Visit[F]:
    """Go to a database and read it; whatever stands in the way becomes a finding."""
    try:
        connection = connect(endpoint, _STAGE)
    except PgreplError as exc:
        return _Visit((_failure("reachable", exc),))
    with connection:
        info = connection.info
        way = endpoint.dsn.for_another_user(host=info.host, port=info.port, dbname=info.dbname)
        reachable = Finding.ok("reachable", str(endpoint.dsn))
        if info.server_version < MINIMUM_VERSION:
            # What the checks ask for may not even exist there.
            return _Visit((reachable, check_version(info.server_version)), way)
        try:
            with translated(endpoint, "cannot examine"):
                clock = _read_clock(endpoint, connection)
                return _Visit((reachable,), way, clock, read(connection))
        except PgreplError as exc:
            return _Visit((reachable, _failure("readable", exc)), way)


def _visit_source(source: SourceConfig) -> _Visit[_Reading]:
    def read(connection: Connection) -> _Reading:
        facts = read_source(connection, source)
        probe = probe_plugin(connection, source.plugin) if is_probe_possible(facts) else None
        is_blocked = probe is not None and probe.state is PluginState.BLOCKED
        writers = read_writers(connection) if is_blocked else []
        found = read_publications(connection, source) if source.plugin == "pgoutput" else None
        problems = find_source_problems(connection, source)
        problems += find_name_problems(connection, source)
        generated = read_generated(connection, facts) if source.plugin == "pgoutput" else None
        capture = read_capture(connection)
        return _Reading(facts, probe, writers, capture, found, problems, generated)

    return _visit(source.endpoint, read)


def _failure(check: str, error: PgreplError) -> Finding:
    return Finding(
        check, Status.FAILURE, error.message, Remedy(then=error.hint) if error.hint else None
    )


def _read_clock(endpoint: Endpoint, connection: Connection) -> machine.ClockReading:
    before = datetime.now(UTC)
    ((server,),) = connection.execute("select clock_timestamp()").fetchall()
    return machine.ClockReading(str(endpoint), server, before, datetime.now(UTC))


def _assign(
    sources: Sequence[SourceConfig], visits: Mapping[str, _Visit[_Reading]]
) -> tuple[Mapping[tuple[str, str], str] | None, Finding]:
    """Name the target schemas, now that the sources' schemas are known."""
    read = [(s, visit.facts.facts) for s in sources if (visit := visits[s.name]).facts is not None]
    try:
        names = assign_target_schemas(
            (source.name, facts.server.dbname, source.schema, facts.schemas)
            for source, facts in read
        )
    except NameClashError as exc:
        remedy = Remedy(then='set another schema = "..." for one of them in pgrepl.toml')
        return None, Finding("target-schemas", Status.FAILURE, str(exc), remedy)
    if len(read) < len(sources):
        unread = "cannot be checked before all sources can be read"
        return None, Finding.skipped("target-schemas", unread)
    return names, Finding.ok("target-schemas", f"{counted(len(names), 'schema')}, no clash")


def _examine_source(
    config: Config, source: SourceConfig, visit: _Visit[_Reading], target_locale: str | None
) -> Examination:
    findings = list(visit.findings)
    if visit.facts is not None:
        reading = visit.facts
        include = config.ddl.include
        findings += check_server(source, reading.facts, reading.probe, reading.writers, include)
        slots = [each.slot for each in config.sources.values()]
        findings.append(check_orphaned_slots(reading.facts.other_slots, slots))
        findings += check_tables(reading.facts, source.selection)
        findings.append(check_publications(source, reading.facts, reading.publications))
        findings.append(check_generated_columns(source, reading.generated, target_locale))
        findings.append(check_capture(source.name, reading.capture))
        findings.append(
            check_rules(
                source.rules, reading.rule_problems, is_captured=reading.capture.is_complete
            )
        )
    return Examination(Area.SOURCE, source.name, tuple(findings), visit.psql_conninfo)


def _examine_target(
    config: Config,
    visit: _Visit[TargetFacts],
    sources: Mapping[str, _Visit[_Reading]],
    names: Mapping[tuple[str, str], str] | None,
) -> Examination:
    findings = list(visit.findings)
    if visit.facts is not None:
        read = {name: v.facts.facts for name, v in sources.items() if v.facts is not None}
        findings += check_target(
            visit.facts,
            read if len(read) == len(sources) else None,
            origins=[source.origin for source in config.sources.values()],
            trusted=[source.name for source in config.sources.values() if source.trust_code],
            target_schemas=names,
        )
        findings += check_orphaned_sources(
            visit.facts.source_slots,
            visit.facts.server.origins,
            {source.name: source.slot for source in config.sources.values()},
        )
        findings.append(check_passed_over(visit.facts.passed_over))
        findings.append(
            check_table_names(
                [copy for copy in visit.facts.copies if copy.source in config.sources],
                {source.name: source.rules for source in config.sources.values()},
            )
        )
    return Examination(Area.TARGET, "target", tuple(findings), visit.psql_conninfo)
