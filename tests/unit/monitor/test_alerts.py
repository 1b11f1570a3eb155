"""What is told, when, and that it is told once: over plain values."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pgrepl.config.alerts import AlertsConfig
from pgrepl.lsn import Lsn
from pgrepl.monitor.alarm import as_document
from pgrepl.monitor.alerts import News, find_alerts, find_news
from pgrepl.monitor.delivery import DeliveryFailed, deliver
from pgrepl.status import Positions, SourceStatus, Status, Step
from pgrepl.status.facts import TargetFacts
from pgrepl.store.monitoring.alerts import AlertRow
from pgrepl.store.monitoring.overview import TableOverview
from pgrepl.store.spool.consumers import ConsumerOverview
from tests.unit.status.test_lag import ROW, SOURCE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = AlertsConfig(command=("true",))
TARGET = TargetFacts(NOW, ROW, (), (), (), 0, {})
TABLE = TableOverview(
    source_id=1,
    schema_name="public",
    table_name="t",
    state="ready",
    resync_reason=None,
    due_reason=None,
    due_attempts=0,
    due_error=None,
    part_count=0,
    done_count=0,
    parked_at=NOW,
    parked_kind="failed",
    sqlstate="22000",
    parked_reason="a reason",
    parked_changes=1,
    missing_count=0,
    extra_count=0,
)


CONSUMER = ConsumerOverview(
    name="lake",
    kind="files",
    destination="/srv/lake",
    state="active",
    lsn=Lsn(1),
    segment_count=3,
    byte_count=100,
    lag_bytes=200,
    moved_at=NOW - timedelta(hours=2),
    keep=timedelta(hours=4),
    lost_at=None,
    gaps={},
)
LATE = replace(CONSUMER, moved_at=NOW - timedelta(hours=3))


def of_consumer(consumer: ConsumerOverview) -> Status:
    return status(target=replace(TARGET, consumers=[consumer]))


def status(lag_s: float = 0.0, **changed) -> Status:
    step = Step(Lsn(1), 1, lag_s)
    given = {
        "name": "shop",
        "state": "streaming",
        "source": SOURCE,
        "target": TARGET,
        "positions": Positions(Lsn(1), step, step, step),
        "problems": (),
        "wal_bytes_per_s": 10.0,
        **changed,
    }
    return Status(NOW, [SourceStatus(**given)])


def kinds(found: Status) -> list[tuple[str, str]]:
    return [(alert.kind, alert.subject) for alert in find_alerts(found, LIMITS)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (status(), []),
        (status(lag_s=601), [("lag", "")]),
        (status(lag_s=599), []),
        (status(target=replace(TARGET, tables=[TABLE])), [("parked", "public.t")]),
        (status(target=replace(TARGET, tables=[replace(TABLE, parked_kind="paused")])), []),
        (status(target=replace(TARGET, pending_ddl_count=2)), [("ddl", "")]),
        (of_consumer(CONSUMER), []),
        (of_consumer(LATE), [("consumer", "lake")]),
        # It has nothing to read.
        (of_consumer(replace(LATE, segment_count=0)), []),
        (of_consumer(replace(CONSUMER, state="lost", lost_at=NOW)), [("consumer", "lake")]),
        (status(source=replace(SOURCE, wal_status="unreserved")), [("slot", "")]),
        (status(source=replace(SOURCE, safe_bytes=10 * 3600)), [("slot", "")]),
        (status(source=replace(SOURCE, safe_bytes=10 * 86_400)), []),
        (status(state="not receiving"), [("receiver", "")]),
        (status(state="unreachable", source=None), [("receiver", "")]),
        (status(state="copying", positions=None), []),
        (status(state="absent", source=None, target=None, positions=None), []),
    ],
)
def test_what_is_wrong_is_found(found, expected):
    assert kinds(found) == expected


def news(found: Status, known=(), now: datetime = NOW) -> list[tuple[str, str]]:
    return [(item.action, item.row.kind) for item in find_news(found, LIMITS, known, now)]


def row(kind: str, *, is_told: bool, since: datetime = NOW) -> AlertRow:
    return AlertRow("shop", kind, "", since, "so it was", NOW if is_told else None)


def test_alert_is_told_once_and_once_when_it_is_over():
    assert news(status(lag_s=700)) == [("begin", "lag")]
    assert news(status(lag_s=700), [row("lag", is_told=True)]) == []
    assert news(status(lag_s=5), [row("lag", is_told=True)]) == [("end", "lag")]
    assert news(status(lag_s=5)) == []


def test_receiver_that_is_away_for_a_moment_is_not_told():
    away = status(state="not receiving")
    assert news(away) == [("keep", "receiver")]
    waiting = row("receiver", is_told=False)
    assert news(away, [waiting], NOW + timedelta(minutes=4)) == []
    assert news(away, [waiting], NOW + timedelta(minutes=5)) == [("begin", "receiver")]
    assert news(status(), [waiting]) == [("forget", "receiver")]


def test_nobody_could_be_told_so_it_is_tried_again():
    assert news(status(lag_s=700), [row("lag", is_told=False)]) == [("begin", "lag")]


def test_slot_of_a_source_that_does_not_answer_is_neither_safe_nor_lost():
    down = status(state="unreachable", source=None)
    assert news(down, [row("slot", is_told=True)]) == [("keep", "receiver")]
    assert news(status(), [row("slot", is_told=True)]) == [("end", "slot")]


def test_end_of_an_alert_is_told_when_its_source_is_dropped():
    assert news(Status(NOW, []), [row("lag", is_told=True)]) == [("end", "lag")]


DOCUMENT = as_document(News("begin", row("lag", is_told=False), ("pgrepl status shop",)), NOW)
WRITE = (
    "import os, sys, json, pathlib; pathlib.Path(sys.argv[1]).write_text(json.dumps("
    "[json.load(sys.stdin), {k: v for k, v in os.environ.items() if k.startswith('PGREPL_ALERT')},"
    " sys.argv[2]]))"
)


def test_command_gets_the_alert_as_json_and_in_its_environment(tmp_path):
    path = tmp_path / "told"
    # No shell reads it.
    words = (sys.executable, "-c", WRITE, str(path), "$(touch x); `y`")
    deliver(AlertsConfig(command=words), DOCUMENT)
    told, environment, word = json.loads(path.read_text(encoding="utf-8"))
    assert word == "$(touch x); `y`"
    assert told["state"] == "firing"
    assert told["since"] == told["at"] == "2026-03-01T12:00:00.000000Z"
    assert told["commands"] == ["pgrepl status shop"]
    assert environment == {
        "PGREPL_ALERT_STATE": "firing",
        "PGREPL_ALERT_KIND": "lag",
        "PGREPL_ALERT_SOURCE": "shop",
        "PGREPL_ALERT_SUBJECT": "",
        "PGREPL_ALERT_MESSAGE": "so it was",
    }


def test_command_that_fails_hangs_or_is_missing_is_named():
    failing = ("sh", "-c", "echo 'no \033[2J mail' >&2; exit 3")
    with pytest.raises(DeliveryFailed, match=r"sh exited with 3: no \\x1b\[2J mail"):
        deliver(AlertsConfig(command=failing), DOCUMENT)
    with pytest.raises(DeliveryFailed, match="no such file"):
        deliver(AlertsConfig(command=("/none/such",)), DOCUMENT)
    began_at = time.monotonic()
    # Its child keeps the pipe open.
    hanging = ("sh", "-c", "sleep 60 & sleep 60")
    with pytest.raises(DeliveryFailed, match="was killed"):
        deliver(AlertsConfig(command=hanging), DOCUMENT, patience_s=0.3)
    assert time.monotonic() - began_at < 20


@pytest.mark.parametrize(("code", "is_well"), [(204, True), (302, False), (500, False)])
def test_webhook_gets_the_alert_and_its_address_is_in_no_text(code, is_well):
    taken: list[tuple[str | None, dict[str, Any]]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(code)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        config = AlertsConfig(webhook=f"http://127.0.0.1:{server.server_port}/hook-secret")
        if is_well:
            deliver(config, DOCUMENT)
        else:
            with pytest.raises(DeliveryFailed, match=f"answered {code}") as caught:
                deliver(config, DOCUMENT)
            assert "hook-secret" not in str(caught.value)
    assert taken[0][0] == "application/json"
    assert taken[0][1]["kind"] == "lag"
