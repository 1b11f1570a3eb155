"""What has to hold before receiving goes on with a server that pg_upgrade made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.catalog.slots import Slot
from pgrepl.errors import SourceError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.catalog import SourceFacts
from pgrepl.receiver.postgres.upgrade_check import (
    Evidence,
    UpgradedTable,
    check_same_database,
    find_doubt,
    find_written,
    is_migrated,
)
from pgrepl.store.sources import SourceRow

ROW = SourceRow(1, "shop", "slot", "db", 77, 1, "streaming", Lsn(0x100))
FACTS = SourceFacts("UTF8", is_standby=False, flush_lsn=Lsn(0x900), wal_sender_timeout_s=60)
RECEIVED = Lsn(0x200)
NAME = ("public", "t")
TABLE = UpgradedTable(*NAME, oid=5, is_written=False, is_empty=False)
SURE = Evidence(
    is_counting=True, has_all_counts=True, ddl_count=0, session_count=0, prepared_count=0
)
SLOT = Slot(name="slot", plugin="wal2json", dbname="db", is_here=True)


def test_same_tables_at_a_later_position_are_the_same_database():
    check_same_database(ROW, FACTS, RECEIVED, {NAME: 5, ("public", "dropped"): 6}, [TABLE])


@pytest.mark.parametrize(
    ("facts", "known", "message"),
    [
        (replace(FACTS, is_standby=True), {NAME: 5}, "standby"),
        (replace(FACTS, flush_lsn=RECEIVED), {NAME: 5}, "received up to 0/200"),
        (FACTS, {NAME: 6}, "another OID: public.t"),
        (FACTS, {("public", "dropped"): 5}, "none of its tables"),
        (FACTS, {}, "none of its tables"),
    ],
)
def test_other_servers_are_refused(facts, known, message):
    with pytest.raises(SourceError, match=message):
        check_same_database(ROW, facts, RECEIVED, known, [TABLE])


@pytest.mark.parametrize(
    ("version", "slot", "expected"),
    [
        (170004, SLOT, True),
        (170004, None, False),
        (170004, replace(SLOT, wal_status="lost"), False),
        (170004, replace(SLOT, plugin="pgoutput"), False),
        (170004, replace(SLOT, dbname="other"), False),
        # Then a person made the slot by hand.
        (160004, SLOT, False),
        (None, SLOT, False),
    ],
)
def test_slot_came_along_only_where_pg_upgrade_brings_slots(version, slot, expected):
    assert is_migrated(ROW, version, slot, "wal2json") is expected


@pytest.mark.parametrize(
    ("evidence", "is_shut_down", "doubt"),
    [
        (SURE, False, "received to its end"),
        (replace(SURE, is_counting=False), True, "statistics"),
        (replace(SURE, has_all_counts=False), True, "statistics"),
        (replace(SURE, ddl_count=1), True, "DDL"),
        (replace(SURE, session_count=2), True, "2 other sessions"),
        (replace(SURE, prepared_count=1), True, "1 prepared transaction "),
    ],
)
def test_each_gap_in_the_evidence_is_a_doubt(evidence, is_shut_down, doubt):
    found = find_doubt(evidence, is_shut_down=is_shut_down)
    assert found is not None
    assert doubt in found.reason


def test_whole_evidence_leaves_no_doubt():
    assert find_doubt(SURE, is_shut_down=True) is None


@pytest.mark.parametrize(
    ("table", "filled", "expected"),
    [
        (TABLE, [NAME], []),
        (replace(TABLE, is_written=True), [NAME], [NAME]),
        (replace(TABLE, is_empty=True), [NAME], [NAME]),
        (replace(TABLE, is_empty=True), [], []),
        (replace(TABLE, oid=None, is_empty=True), [NAME], []),
    ],
)
def test_written_and_truncated_tables_are_found(table, filled, expected):
    assert find_written([table], filled) == expected
