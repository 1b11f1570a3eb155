"""Examine sources, target and this machine in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from pgrepl.config import Config, SourceConfig
from pgrepl.doctor import machine
from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status, counted
from pgrepl.doctor.plugin_probe import PluginState, Probe, probe_plugin
from pgrepl.doctor.source_checks import check_server, is_probe_possible
from pgrepl.doctor.source_facts import SourceFacts, read_source
from pgrepl.doctor.table_checks import check_tables
from pgrepl.doctor.target_checks import check_target
from pgrepl.doctor.target_facts import TargetFacts, read_target
from pgrepl.dsn import Dsn, Endpoint
from pgrepl.errors import PgreplError
from pgrepl.naming import NameClashError, assign_target_schemas
from pgrepl.postgres import Connection, connect
from pgrepl.sqlstate import translated
from pgrepl.writers import Writer, read_writers

__all__ = ["examine"]

_STAGE = "doctor"
#: Dead servers are waited for at the same time, not one after the other.
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class _Source:
    config: SourceConfig
    facts: SourceFacts
    probe: Probe | None
    writers: Sequence[Writer]
    clock: machine.ClockReading


@dataclass(frozen=True, slots=True)
class _Target:
    facts: TargetFacts
    clock: machine.ClockReading


def examine(
    config: Config, sources: Sequence[SourceConfig], environment: Mapping[str, str], *, spark: bool
) -> list[Examination]:
    """Run every check. A server that does not answer is a finding, not an error."""
    java = machine.check_java(environment)
    spark_probe = machine.SparkProbe(config.spark) if spark and java.status is Status.OK else None
    try:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            source_results = list(pool.map(_read_source, sources))
            target_result = pool.submit(_read_target, config).result()
        read = {r.config.name: r for r in source_results if isinstance(r, _Source)}
        names, names_finding = _assign(read)
        examinations = [
            _examine_source(source, result)
            for source, result in zip(sources, source_results, strict=True)
        ]
        examinations.append(_examine_target(config, target_result, read, names))
        clocks = [result.clock for result in read.values()]
        if isinstance(target_result, _Target):
            clocks.append(target_result.clock)
        here = [
            machine.check_config_file(config),
            names_finding,
            machine.check_clocks(clocks),
            java,
        ]
        if spark_probe is not None:
            here.append(spark_probe.finding())
        elif spark:
            here.append(Finding.skipped("spark", "cannot be tried without Java"))
    except BaseException:
        if spark_probe is not None:
            spark_probe.cancel()
        raise
    return [*examinations, Examination(Area.HERE, "here", tuple(here))]


def _read_source(source: SourceConfig) -> _Source | PgreplError:
    endpoint = source.endpoint
    try:
        with connect(endpoint, _STAGE) as connection, translated(endpoint, "cannot examine"):
            clock = _read_clock(endpoint, connection)
            facts = read_source(connection, source)
            probe = probe_plugin(connection) if is_probe_possible(facts) else None
            is_blocked = probe is not None and probe.state is PluginState.BLOCKED
            writers = read_writers(connection) if is_blocked else []
            return _Source(source, facts, probe, writers, clock)
    except PgreplError as exc:
        return exc


def _read_target(config: Config) -> _Target | PgreplError:
    endpoint = config.target.endpoint
    try:
        with connect(endpoint, _STAGE) as connection, translated(endpoint, "cannot examine"):
            clock = _read_clock(endpoint, connection)
            return _Target(read_target(connection), clock)
    except PgreplError as exc:
        return exc


def _read_clock(endpoint: Endpoint, connection: Connection) -> machine.ClockReading:
    before = datetime.now(UTC)
    ((server,),) = connection.execute("select clock_timestamp()").fetchall()
    return machine.ClockReading(str(endpoint), server, before, datetime.now(UTC))


def _assign(read: Mapping[str, _Source]) -> tuple[Mapping[tuple[str, str], str], Finding]:
    """Name the target schemas, now that the sources' schemas are known."""
    try:
        names = assign_target_schemas(
            (name, source.facts.server.dbname, source.config.schema, source.facts.schemas)
            for name, source in read.items()
        )
    except NameClashError as exc:
        remedy = Remedy(then='set another schema = "..." for one of them in pgrepl.toml')
        return {}, Finding("target-schemas", Status.FAILURE, str(exc), remedy)
    return names, Finding.ok("target-schemas", f"{counted(len(names), 'schema')}, no clash")


def _examine_source(source: SourceConfig, result: _Source | PgreplError) -> Examination:
    if isinstance(result, PgreplError):
        return _unreachable(Area.SOURCE, source.name, source.dsn, result)
    findings = (
        Finding.ok("reachable", str(source.dsn)),
        *check_server(source, result.facts, result.probe, result.writers),
        *check_tables(result.facts),
    )
    return Examination(Area.SOURCE, source.name, findings, source.dsn.for_another_user())


def _examine_target(
    config: Config,
    result: _Target | PgreplError,
    read: Mapping[str, _Source],
    names: Mapping[tuple[str, str], str],
) -> Examination:
    dsn = config.target.dsn
    if isinstance(result, PgreplError):
        return _unreachable(Area.TARGET, "target", dsn, result)
    findings = check_target(
        result.facts,
        {name: source.facts for name, source in read.items()},
        origins=[source.origin for source in config.sources.values()],
        target_schemas=names,
    )
    reachable = Finding.ok("reachable", str(dsn))
    return Examination(Area.TARGET, "target", (reachable, *findings), dsn.for_another_user())


def _unreachable(area: Area, name: str, dsn: Dsn, error: PgreplError) -> Examination:
    remedy = Remedy(then=error.hint) if error.hint else None
    finding = Finding("reachable", Status.FAILURE, error.message, remedy)
    return Examination(area, name, (finding,), dsn.for_another_user())
