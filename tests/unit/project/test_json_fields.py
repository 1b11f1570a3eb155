"""Every field that a command prints as JSON is in docs/json.md, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from pgrepl.basebackup.dry_run import PlannedTable
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.plan import Step
from pgrepl.ddl_capture.missed import MissedDdl
from pgrepl.ddl_capture.source import CaptureStatus
from pgrepl.receiver.run import Result
from pgrepl.replayer.parked.parked_tables import ParkedChange
from pgrepl.status.history import Point
from pgrepl.status.problems.problem import Problem
from pgrepl.store.ddl_journal import PendingDdl
from pgrepl.store.monitoring.overview import FailureOverview
from pgrepl.store.parked import ParkedTable
from pgrepl.verify.report import (
    RowDifference,
    SequenceFinding,
    StructureDifference,
    TableReport,
    VerifyReport,
)

ROOT = Path(__file__).parents[3]

#: The documents: functions whose dictionaries they are made of, and values that go in as they are.
DOCUMENTS: dict[str, list[tuple[str, str] | type]] = {
    "an error": [
        ("cli/invocation.py", "fail"),
        ("cli/output/status_output.py", "show_error"),
    ],
    "pgrepl status": [
        *(
            ("status/document.py", name)
            for name in (
                *("as_json", "_source", "_positions", "_step", "slot_as_json", "_receiver"),
                *("_target", "_consumer", "_pause", "_resync", "_table"),
            )
        ),
        Problem,
        FailureOverview,
    ],
    "pgrepl status --since": [("status/history.py", "history_as_json"), Point],
    "pgrepl doctor": [("cli/setup/doctor.py", "doctor"), ("cli/setup/doctor.py", "_as_json")],
    "pgrepl basebackup": [
        ("cli/output/basebackup_output.py", "print_report"),
        ("cli/output/basebackup_output.py", "_table_json"),
        LeftOut,
    ],
    "pgrepl basebackup --dry-run": [
        ("cli/output/basebackup_output.py", "print_plan"),
        PlannedTable,
        Step,
        LeftOut,
    ],
    "pgrepl receive": [("cli/replicate/receive.py", "receive"), Result],
    "pgrepl replay": [("cli/replicate/replay.py", "_as_json")],
    "pgrepl verify": [
        ("cli/output/verify_output.py", "print_reports"),
        ("cli/output/verify_output.py", "_as_json"),
        VerifyReport,
        TableReport,
        RowDifference,
        StructureDifference,
        SequenceFinding,
    ],
    "pgrepl resync": [("cli/replicate/resync.py", "_print")],
    "pgrepl resync --cancel": [("cli/replicate/resync.py", "_cancel")],
    "pgrepl progress": [("cli/observe/progress.py", "_as_json")],
    "pgrepl export": [("cli/replicate/export.py", "export")],
    "pgrepl export --forget": [("cli/replicate/export.py", "_forget")],
    "pgrepl adopt": [("cli/replicate/adopt.py", "_document")],
    "pgrepl drop": [("cli/replicate/drop.py", "_print"), ("cli/replicate/drop.py", "_as_json")],
    "pgrepl pause and resume": [("cli/intervene/pause.py", "_report")],
    "pgrepl parked list": [("cli/intervene/parked.py", "_as_json")],
    "pgrepl parked show": [
        ("cli/intervene/parked.py", "_as_json"),
        ("cli/intervene/parked.py", "show"),
    ],
    "pgrepl parked retry and skip": [("cli/intervene/parked.py", "_report")],
    "pgrepl parked records": [("cli/intervene/parked_records.py", "records")],
    "pgrepl parked retry --records": [("cli/intervene/parked_records.py", "retry_parked_records")],
    "pgrepl ddl status": [("cli/intervene/ddl.py", "status"), CaptureStatus, MissedDdl],
    "pgrepl ddl pending": [PendingDdl],
    "pgrepl config check": [("cli/setup/config.py", "check")],
}

#: Keys that are no literals.
COMPUTED = {
    "pgrepl pause and resume": {"paused", "resumed"},
    "pgrepl parked retry --records": {"received", "superseded", "parked"},
}
#: Not documents of fields: names of files, settings.
OTHERS = {("cli/setup/systemd.py", "systemd"), ("cli/setup/config.py", "show")}
#: Print what others make.
PRINTERS = {
    ("cli/intervene/ddl.py", "pending"),
    ("cli/intervene/ddl.py", "_print_status"),
    ("cli/intervene/parked.py", "list_tables"),
    ("cli/observe/progress.py", "_follow"),
    ("cli/observe/progress.py", "_print"),
    ("cli/observe/status.py", "_show_past"),
    ("cli/output/status_output.py", "show"),
    ("cli/replicate/adopt.py", "adopt"),
    ("cli/replicate/replay.py", "replay"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: str) -> Iterator[Function]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def keys_of(path: str, name: str) -> set[str]:
    """Return the keys of a function's dictionaries: written out, or set one by one."""
    nodes = [node for found in functions(path) if found.name == name for node in ast.walk(found)]
    assert nodes, f"{path} has no {name}"
    keys = {
        key.value
        for node in nodes
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    keys |= {
        target.slice.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    }
    return {str(key) for key in keys}


def fields_of(document: str) -> set[str]:
    found = set(COMPUTED.get(document, ()))
    for place in DOCUMENTS[document]:
        if isinstance(place, tuple):
            found |= keys_of(*place)
        else:
            found |= {item.name for item in fields(place)}
    return found


def sections() -> dict[str, set[str]]:
    """Return the names of the fields in each section of the page."""
    text = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    found = {}
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", body, re.MULTILINE)
        names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
        parts = {part for name in names for part in re.split(r"[.\[\]]+", name)}
        found[title.replace("`", "")] = parts - {"", "NAME"}
    return found


def test_times_are_times_so_that_all_are_printed_in_one_form():
    places = {place for places in DOCUMENTS.values() for place in places}
    types = {
        f"{place.__name__}.{item.name}": str(item.type)
        for place in {*places, ParkedChange, ParkedTable}
        if isinstance(place, type)
        for item in fields(place)
        if re.search(r"(^|_)at$", item.name)
    }
    assert types
    assert [name for name, type_name in types.items() if "datetime" not in type_name] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_page_has_every_field_of_a_document_and_no_other(document):
    assert sections()[document] == fields_of(document)


def test_page_has_every_document():
    assert sections().keys() == DOCUMENTS.keys()
    printed = {
        (path.relative_to(ROOT).as_posix(), function.name)
        for path in (ROOT / "cli").rglob("*.py")
        for function in functions(str(path.relative_to(ROOT)))
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print_json", "print_json_line")
    }
    known = {place for places in DOCUMENTS.values() for place in places if isinstance(place, tuple)}
    assert printed - known - OTHERS - PRINTERS - {("cli/output/results.py", "print_json")} == set()
