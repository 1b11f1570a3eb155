"""The page of benchmarks says what was measured."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from bench.reporting.report import write_report
from bench.reporting.results import forget, is_complete, load_results, save_results


def timing(wall_s: float) -> dict[str, Any]:
    return {"wall_s": wall_s, "cpu_s": {"source": 1.0, "target": wall_s / 2, "JVM": 0.0}}


def rounds(*walls: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"native": timing(theirs), "pgoutput": timing(ours)} for theirs, ours in walls]


RESULTS: dict[str, Any] = {
    "machine": {"processors": "2 of some kind"},
    "ratios": {
        "tpcb": {
            "title": "TPC-B",
            "transactions": 1000,
            # The ratios of the rounds are 2, 0.5 and 3: the median is of them, not of the walls.
            "together": rounds((4.0, 2.0), (1.0, 2.0), (9.0, 3.0)),
            "alone": rounds((4.0, 8.0)),
            "receive_s": {"pgoutput": [1.0]},
            "spool_bytes": {"pgoutput": 371},
        }
    },
    "latency": [
        {"rate": 50, "who": "native", "p50_s": 0.01, "p95_s": 0.02, "cpu_per_s": {"source": 0.1}}
    ],
    "ddl": [
        {
            "plugin": "pgoutput",
            "transactions": 1000,
            "outcomes": {"applied": 917},
            "parked": 0,
            "wall_ms": 25.04,
            "replay_ms": 11.4,
            "target_ms": 13.0,
        }
    ],
    "growth": {
        "backlog": [
            {
                "size": size,
                "changes": size,
                "pgoutput": {
                    "receive_s": 0.5,
                    "replay_s": size / 1e5,
                    "receiver_mib": 60,
                    "worker_mib": 150,
                },
            }
            for size in (10_000, 100_000)
        ]
    },
}


def test_page_has_medians_of_ratios_losses_and_charts(tmp_path):
    charts: dict[str, str] = {}
    write_report(tmp_path, RESULTS, lambda svg, path: charts.update({path.name: svg}))
    page = (tmp_path / "benchmarks.md").read_text()
    assert "| TPC-B | **2.00** (2.0) | **0.50** (4.0) |" in page
    assert "We lose at: TPC-B (pgoutput alone: 0.5)." in page
    assert "| TPC-B | pgoutput, together | 2.00 | 2.0 | source 1.0, target 1.0 | 371 |" in page
    assert "| 50 | native | 0.010 | 0.020 | 0.10 | source 0.10 |" in page
    assert "| 100,000 | 100,000 | 0.5 + 1.0 | 60, 150 |" in page
    assert "| pgoutput | 1,000 | 25.0 | 11.4 | 13.0 |" in page
    assert "![Ratios](benchmarks/ratios.png)" in page
    assert charts.keys() == {"ratios.png", "backlog.png"}
    assert all(ET.fromstring(chart).tag.endswith("svg") for chart in charts.values())


def test_part_that_was_not_measured_is_not_on_the_page(tmp_path):
    write_report(tmp_path, {"machine": {}, "ratios": RESULTS["ratios"]}, lambda *_: None)
    assert "From commit to visible" not in (tmp_path / "benchmarks.md").read_text()


def test_runs_add_to_one_another(tmp_path):
    assert load_results(tmp_path) == {}
    save_results(tmp_path, RESULTS)
    kept = load_results(tmp_path)
    assert kept == RESULTS
    assert is_complete(kept, "tpcb", 3)
    assert not is_complete(kept, "tpcb", 4)
    assert not any(is_complete(kept, name, 1) for name in ("insert", "latency", "ddl", "backlog"))
    for name in ("tpcb", "latency", "ddl", "backlog"):
        forget(kept, name)
    assert kept == {"machine": RESULTS["machine"], "ratios": {}, "growth": {}}
