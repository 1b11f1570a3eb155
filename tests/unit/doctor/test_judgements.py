"""Judgements over facts that no server here can be brought to show."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from pgrepl.doctor.finding import Area, Examination, Finding, Status, exit_code
from pgrepl.doctor.machine import ClockReading, check_clocks
from pgrepl.doctor.plugin_probe import PluginState, Probe
from pgrepl.doctor.source_checks import (
    check_plugin,
    check_plugin_allowed,
    check_slot,
    check_special_floats,
    check_version,
)
from pgrepl.doctor.source_facts import SourceFacts, SourceServer, SourceSlot
from pgrepl.doctor.target_checks import check_lz4
from pgrepl.doctor.target_facts import TargetServer

SERVER = SourceServer(
    version_num=150020,
    is_standby=False,
    dbname="shop",
    system_identifier=1,
    role="pgrepl",
    may_replicate=True,
    wal_level="logical",
    output_plugin_libraries="pgoutput, test_decoding, wal2json",
    max_slots=10,
    used_slots=0,
    max_wal_senders=10,
    used_wal_senders=0,
    encoding="UTF8",
    max_slot_wal_keep_mb=100_000,
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


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("pgoutput", "ALTER SYSTEM SET output_plugin_libraries = pgoutput, wal2json"),
        (
            '"pgoutput, test_decoding, wal2json"',
            'ALTER SYSTEM SET output_plugin_libraries = pgoutput, "test_decoding", wal2json',
        ),
        ('"my-plugin"', 'ALTER SYSTEM SET output_plugin_libraries = "my-plugin", wal2json'),
        ("", "ALTER SYSTEM SET output_plugin_libraries = wal2json"),
    ],
)
def test_plugin_is_added_to_the_list_that_is_there(setting, statement):
    finding = check_plugin_allowed(server(output_plugin_libraries=setting))
    assert finding.status is Status.FAILURE
    assert finding.remedy is not None
    assert finding.remedy.sql == (statement, "SELECT pg_reload_conf()")


def test_single_quoted_list_is_explained():
    finding = check_plugin_allowed(server(output_plugin_libraries='"pgoutput, wal2json"'))
    assert "single quoted text for a single name" in finding.message


@pytest.mark.parametrize("setting", [None, "wal2json", 'pgoutput, "wal2json"'])
def test_server_that_lists_the_plugin_or_knows_no_list_is_well(setting):
    assert check_plugin_allowed(server(output_plugin_libraries=setting)).status is Status.OK


def test_missing_plugin_names_the_package_of_the_servers_version():
    probe = Probe(PluginState.MISSING, reason='could not access file "wal2json"')
    finding = check_plugin(server(version_num=170002), probe)
    assert finding.status is Status.FAILURE
    assert finding.remedy is not None
    assert finding.remedy.shell == ("apt-get install postgresql-17-wal2json",)


def test_new_plugin_carries_special_floats():
    facts = SourceFacts(server=SERVER, tables=[], unreadable_sequences=[], extensions=[], slot=None)
    probe = Probe(PluginState.USABLE, has_text_numbers=True)
    assert check_special_floats(facts, probe).status is Status.OK


def test_slot_about_to_be_lost_fails():
    slot = SourceSlot("wal2json", "shop", is_active=False, wal_status="unreserved", held_bytes=1)
    finding = check_slot("pgrepl_shop", SERVER, slot)
    assert (finding.status, "about to be lost" in finding.message) == (Status.FAILURE, True)


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
