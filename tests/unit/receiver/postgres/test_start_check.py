"""Where streaming may begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pgrepl.catalog.slots import Slot
from pgrepl.errors import PgreplError, SourceError, SourceUnavailable, SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.catalog import SourceFacts
from pgrepl.receiver.postgres.start_check import Identity, check_start
from pgrepl.receiver.spool.spool_session import Progress
from pgrepl.store.sources import SourceRow

ROW = SourceRow(1, "shop", "slot", "db", 77, 1, "streaming", Lsn(0x100))
SLOT = Slot(
    name="slot",
    plugin="wal2json",
    dbname="db",
    is_here=True,
    confirmed_flush_lsn=Lsn(0x100),
    restart_lsn=Lsn(0x80),
    wal_status="reserved",
)
FACTS = SourceFacts("UTF8", False, Lsn(0x900), 60, SLOT)
GOOD: dict[str, Any] = {
    "row": ROW,
    "origin": Lsn(0x200),
    "progress": Progress(3, Lsn(0x200)),
    "facts": FACTS,
    "identity": Identity(77, 1),
    "plugin": "wal2json",
}


def with_slot(**change: Any) -> SourceFacts:
    return replace(FACTS, slot=replace(SLOT, **change))


def test_begins_at_the_origin():
    assert check_start(**GOOD) == Lsn(0x200)


def test_goes_on_after_a_failover_that_lost_nothing_of_what_was_received():
    assert check_start(**GOOD | {"identity": Identity(77, 2, {1: Lsn(0x200)})}) == Lsn(0x200)


def test_first_receiver_begins_at_the_consistent_point():
    assert check_start(**GOOD | {"origin": Lsn(0x100), "progress": None}) == Lsn(0x100)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"origin": None}, SpoolError, "stands at None"),
        ({"origin": Lsn(0x201)}, SpoolError, "one of them was moved"),
        ({"progress": None}, SpoolError, "one of them was moved"),
        ({"identity": Identity(78, 1)}, SourceError, "another server"),
        ({"identity": Identity(77, 2)}, SourceError, "timeline 2"),
        ({"identity": Identity(77, 2, {1: Lsn(0x1FF)})}, SourceError, "which ended at 0/1FF"),
        ({"facts": replace(FACTS, is_standby=True)}, SourceUnavailable, "standby"),
        ({"facts": replace(FACTS, flush_lsn=Lsn(0x1FF))}, SourceError, "the past"),
        ({"facts": with_slot(confirmed_flush_lsn=Lsn(0x201))}, SourceError, "consumed"),
        ({"facts": replace(FACTS, slot=None)}, SourceError, "does not exist"),
        ({"facts": with_slot(plugin=None, dbname=None)}, SourceError, "does not exist"),
        ({"facts": with_slot(plugin="pgoutput")}, SourceError, "pgoutput"),
        ({"facts": with_slot(dbname="other")}, SourceError, "other"),
        ({"facts": with_slot(wal_status="lost")}, SourceError, "is lost: the server removed WAL"),
        (
            {"facts": with_slot(lost_by="idle_timeout")},
            SourceError,
            "idle_replication_slot_timeout",
        ),
    ],
)
def test_refuses_what_may_have_a_gap_and_says_what_to_do(change, kind, text):
    with pytest.raises(PgreplError, match=text) as caught:
        check_start(**GOOD | change)
    assert type(caught.value) is kind
    assert caught.value.hint
