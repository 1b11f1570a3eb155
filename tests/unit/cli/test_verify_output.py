"""How a comparison is shown to people."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from rich.progress import Progress

from pgrepl.cli.output.verify_output import BarWatcher, print_reports
from pgrepl.errors import TargetError
from pgrepl.verify import (
    RowDifference,
    SequenceFinding,
    StructureDifference,
    TableReport,
    VerifyReport,
)


@pytest.fixture
def report():
    keyed = TableReport(
        name="app.t",
        target_name="shop_app.t",
        source_rows=7000,
        piece_count=2,
        compared_count=2,
        differences=[
            RowDifference(
                kind="changed",
                key={"id": "7", "part": "1"},
                columns=["note"],
                source_row={"id": "7", "note": None},
                target_row={"id": "7", "note": "a\nb"},
            ),
            *(RowDifference(kind="missing", key={"id": str(n)}) for n in range(60)),
        ],
        has_more=True,
    )
    keyless = TableReport(
        name="app.heap",
        target_name="shop_app.heap",
        piece_count=1,
        compared_count=1,
        unsettled_piece_count=1,
        differences=[RowDifference(kind="extra", key={}, count=3)],
        unsettled_count=2,
        note="has no key: compared as a whole",
    )
    return VerifyReport(
        source="shop",
        tables=[keyed, keyless],
        structure=[StructureDifference(table="app.t", what="table", source="there", target=None)],
        sequences=[
            SequenceFinding(name="app.s", what="value", source="9", target="5", is_difference=False)
        ],
        error=TargetError("target: too slow"),
    )


def test_people_see_a_line_for_each_finding(report, capsys):
    print_reports([report], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "structure: app.t: table: source there, target -" in lines
    assert "lags: app.s: value: source 9, target 5" in lines
    assert "changed: app.t (id=7, part=1) in note" in lines
    assert "  source: id='7', note=null" in lines
    assert r"  target: id='7', note='a\nb'" in lines
    assert "more: app.t: at least 11 rows; see --json" in lines
    assert "note: app.heap: has no key: compared as a whole" in lines
    assert "extra: app.heap () 3 times" in lines
    assert "not settled: app.heap: 2 rows" in lines
    assert "not settled: app.heap: 1 of 1 pieces: too much changed each time" in lines
    assert lines[-1].endswith(
        "at least 62 rows differ, 1 difference of structure, 2 rows not settled"
    )


def test_machines_get_every_difference(report, capsys):
    print_reports([report], as_json=True)
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    assert len(source["tables"][0]["differences"]) == 61
    assert (source["has_differences"], source["error"]) == (True, "target: too slow")


def test_bar_moves_with_the_pieces():
    out = io.StringIO()
    with Progress(console=Console(file=out, force_terminal=True, width=100)) as progress:
        watcher = BarWatcher(progress, "shop")
        watcher.begin("rows")
        watcher.show(3, 4, 150_000)
        (task,) = progress.tasks
        assert (task.completed, task.total) == (3, 4)
    assert "150,000 rows" in out.getvalue()
