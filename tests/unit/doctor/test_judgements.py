"""Judgements over facts that no server here can be brought to show."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgrepl.catalog.ownership import OwnerRole
from pgrepl.catalog.slots import Slot
from pgrepl.config.dsn import Dsn
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.doctor.checks.source.orphaned_slot_checks import check_orphaned_slots
from pgrepl.doctor.checks.source.plugin_checks import (
    check_plugin,
    check_plugin_allowed,
    check_special_floats,
)
from pgrepl.doctor.checks.source.source_checks import (
    check_encryption,
    check_idle_timeout,
    check_slot,
    check_trust_code,
    check_version,
)
from pgrepl.doctor.checks.target.code_checks import check_source_code
from pgrepl.doctor.checks.target.orphaned_source_checks import check_orphaned_sources
from pgrepl.doctor.checks.target.target_checks import check_lz4
from pgrepl.doctor.finding import Area, Examination, Finding, Status, exit_code
from pgrepl.doctor.machine import ClockReading, check_clocks
from pgrepl.doctor.plugin_probe import PluginState, Probe
from pgrepl.doctor.source_facts import (
    PluginList,
    SourceFacts,
    SourceServer,
)
from pgrepl.doctor.target_facts import SourceCode, TargetFacts, TargetServer

SERVER = SourceServer(
    version_num=150020,
    is_standby=False,
    dbname="shop",
    system_identifier=1,
    role="pgrepl",
    may_replicate=True,
    reads_everything=True,
    wal_level="logical",
    max_slots=10,
    used_slots=0,
    max_wal_senders=10,
    used_wal_senders=0,
    encoding="UTF8",
    max_slot_wal_keep_mb=100_000,
    idle_slot_timeout_s=None,
    is_private=True,
    has_large_objects=False,
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def server(**changes):
    return dataclasses.replace(SERVER, **changes)


@pytest.mark.parametrize(
    ("version_num", "status"),
    [(140012, Status.FAILURE), (150000, Status.OK), (150020, Status.OK), (180001, Status.OK)],
)
def test_versions_before_15_fail(version_num, status):
    assert check_version(version_num).status is status


USABLE = Probe(PluginState.USABLE)
REFUSED = Probe(PluginState.NOT_ALLOWED)


@pytest.mark.parametrize(
    ("plugins", "probe", "status"),
    [
        (PluginList(exists=False, value=None), None, Status.OK),
        (PluginList(exists=True, value="wal2json"), None, Status.OK),
        (PluginList(exists=True, value='pgoutput, "wal2json"'), None, Status.OK),
        (PluginList(exists=True, value="pgoutput"), REFUSED, Status.FAILURE),
        (PluginList(exists=True, value=""), None, Status.FAILURE),
        (PluginList(exists=True, value='"pgoutput, wal2json"'), None, Status.FAILURE),
        (PluginList(exists=True, value=None), None, Status.FAILURE),
        (PluginList(exists=True, value=None), USABLE, Status.OK),
        (PluginList(exists=True, value=None), REFUSED, Status.FAILURE),
    ],
)
def test_plugin_is_allowed_where_the_list_or_the_attempt_says_so(plugins, probe, status):
    assert check_plugin_allowed("pgrepl", plugins, None, probe).status is status


def test_single_quoted_list_is_explained():
    plugins = PluginList(exists=True, value='"pgoutput, wal2json"')
    finding = check_plugin_allowed("pgrepl", plugins, None, None)
    assert "a single quoted text is a single name" in finding.message


def test_missing_plugin_names_the_package_of_the_servers_version():
    probe = Probe(PluginState.MISSING, reason='could not access file "wal2json"')
    finding = check_plugin("wal2json", server(version_num=170002), probe)
    assert finding.status is Status.FAILURE
    assert finding.remedy is not None
    assert finding.remedy.shell == ("apt-get install postgresql-17-wal2json",)


def test_new_plugin_carries_special_floats():
    nothing = PluginList(exists=False, value=None)
    facts = SourceFacts(
        server=SERVER, plugins=nothing, tables=[], unreadable_sequences=[], extensions=[], slot=None
    )
    probe = Probe(PluginState.USABLE, has_text_numbers=True)
    assert check_special_floats(facts, probe).status is Status.OK


SOURCE = SourceConfig(
    name="shop",
    dsn=Dsn("dbname=shop"),
    slot="pgrepl_shop",
    schema=SchemaTemplate("{db}_{schema}"),
    selection=TableSelection.of(["*.*"]),
)


def slot_of(name: str, plugin: str, **facts: Any) -> Slot:
    return Slot(name=name, plugin=plugin, dbname="shop", is_here=True, **facts)


def test_slot_of_the_other_plugin_says_how_to_change_it():
    slot = slot_of("pgrepl_shop", "pgoutput", wal_status="reserved", held_bytes=1)
    finding = check_slot(SOURCE, SERVER, slot)
    assert finding.remedy is not None
    assert (finding.status, finding.remedy.then) == (
        Status.FAILURE,
        "change it: pgrepl receive shop --change-plugin",
    )


def test_slot_about_to_be_lost_fails():
    slot = slot_of("pgrepl_shop", "wal2json", wal_status="unreserved", held_bytes=1)
    finding = check_slot(SOURCE, SERVER, slot)
    assert (finding.status, "about to be lost" in finding.message) == (Status.FAILURE, True)


def test_source_whose_code_is_trusted_is_a_warning_that_says_what_that_means():
    source = SOURCE
    assert check_trust_code(source).status is Status.OK
    assert check_trust_code(source, ["views", "grants"]).status is Status.OK
    finding = check_trust_code(source, ["functions", "views"])
    assert finding.status is Status.WARNING
    assert "names functions, and trust_code is false" in finding.message
    finding = check_trust_code(dataclasses.replace(source, trust_code=True))
    assert finding.status is Status.WARNING
    assert "can run any SQL on the target" in finding.message


def test_connection_over_a_network_that_is_not_encrypted_is_warned_of():
    assert check_encryption(is_private=True).status is Status.OK
    finding = check_encryption(is_private=False)
    assert finding.status is Status.WARNING
    assert finding.remedy is not None
    assert "sslmode=verify-full" in str(finding.remedy.then)


def test_server_without_lz4_fails():
    facts = {field.name: None for field in dataclasses.fields(TargetServer)}
    without = TargetServer(**{**facts, "has_lz4": False})  # type: ignore[arg-type]
    assert check_lz4(without).status is Status.FAILURE


@pytest.mark.parametrize(
    ("ahead_s", "took_s", "status"),
    [
        (0, 0.01, Status.OK),
        (1.9, 0.01, Status.OK),
        (30, 0.01, Status.WARNING),
        (-30, 0.01, Status.WARNING),
        (3, 4, Status.OK),  # the query may have waited that long
    ],
)
def test_clock_is_off_only_when_the_query_does_not_explain_it(ahead_s, took_s, status):
    after = NOON + timedelta(seconds=took_s)
    middle = NOON + timedelta(seconds=took_s / 2)
    reading = ClockReading("target", middle + timedelta(seconds=ahead_s), NOON, after)
    assert check_clocks([reading]).status is status


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ([], 0),
        ([Area.SOURCE], 20),
        ([Area.TARGET], 30),
        ([Area.HERE], 10),
        ([Area.TARGET, Area.SOURCE, Area.HERE], 20),
        ([Area.HERE, Area.TARGET], 30),
    ],
)
def test_exit_code_is_that_of_the_first_area_that_failed(failed, code):
    bad = Finding("x", Status.FAILURE, "is broken")
    fine = Finding("y", Status.WARNING, "may be better")
    examinations = [
        Examination(area, area.value, (bad if area in failed else fine,)) for area in Area
    ]
    assert exit_code(examinations) == code


def test_code_of_a_source_is_a_failure_unless_the_configuration_trusts_it():
    code = [
        SourceCode("shop", "function", "shop_app.f()", "DROP ROUTINE shop_app.f()"),
        SourceCode("crm", "function", "crm_app.f()", "DROP ROUTINE crm_app.f()"),
    ]
    nothing = {field.name: None for field in dataclasses.fields(TargetServer)}
    server = TargetServer(**nothing)  # type: ignore[arg-type]
    target = TargetFacts(
        server=server, closed_functions=[], schema_version=1, own_schemas={}, code=code
    )
    failure, warning = check_source_code(target, trusted=["crm"])
    assert (failure.status, failure.objects) == (Status.FAILURE, ("function shop_app.f()",))
    assert failure.remedy is not None
    assert failure.remedy.sql == ("DROP ROUTINE shop_app.f()",)
    assert (warning.status, warning.objects) == (Status.WARNING, ("function crm_app.f()",))
    (fine,) = check_source_code(dataclasses.replace(target, code=()), trusted=[])
    assert fine.status is Status.OK


@pytest.mark.parametrize(
    ("version_num", "grant"),
    [
        (150000, 'GRANT "pgrepl_shop" TO "pgrepl"'),
        (160000, 'GRANT "pgrepl_shop" TO "pgrepl" WITH INHERIT TRUE, SET TRUE'),
    ],
)
def test_membership_says_what_it_is_good_for_from_version_16_on(version_num, grant):
    role = OwnerRole(
        "pgrepl_shop",
        exists=False,
        is_self=False,
        foreign_reason=None,
        is_usable=False,
        inherits=True,
        may_create=False,
    )
    statements = [s.as_string() for s in role.make_statements("pgrepl", version_num)]
    assert statements == ['CREATE ROLE "pgrepl_shop" NOLOGIN', grant]


@pytest.mark.parametrize(
    ("limit_s", "status"),
    [(None, Status.OK), (0, Status.OK), (3600, Status.WARNING), (30 * 86_400, Status.OK)],
)
def test_slot_that_is_invalidated_when_nobody_reads_it_is_a_warning(limit_s, status):
    assert check_idle_timeout(server(idle_slot_timeout_s=limit_s)).status is status


def test_slots_that_no_source_has_are_named_with_what_drops_them():
    slots = [
        slot_of("pgrepl_old", "wal2json", held_bytes=5 << 20),
        slot_of("pgrepl_crm", "wal2json", held_bytes=0),
        slot_of("pgrepl_shop_plugin", "pgoutput"),
    ]
    finding = check_orphaned_slots(slots, ["pgrepl_shop", "pgrepl_crm"])
    assert (finding.status, finding.objects) == (Status.WARNING, ("pgrepl_old",))
    assert finding.remedy is not None
    assert finding.remedy.sql == ("SELECT pg_drop_replication_slot('pgrepl_old')",)
    assert check_orphaned_slots(slots[1:], ["pgrepl_shop", "pgrepl_crm"]).status is Status.OK


def test_sources_and_origins_that_the_configuration_does_not_have_are_named():
    known = {"shop": "pgrepl_shop", "gone": "pgrepl_gone"}
    origins = ["pgrepl_shop", "pgrepl_gone", "pgrepl_lost", "pg_16385"]
    sources, lost = check_orphaned_sources(known, origins, {"shop": "pgrepl_shop"})
    assert (sources.status, sources.objects) == (Status.WARNING, ("gone",))
    assert (lost.status, lost.objects) == (Status.WARNING, ("pgrepl_lost",))
    fine = check_orphaned_sources(known, origins[:2], known)
    assert [finding.status for finding in fine] == [Status.OK, Status.OK]
