"""The rules for Prometheus and the board for Grafana name metrics and labels that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pgrepl.monitor import Snapshot
from pgrepl.monitor.web.metrics import Metrics

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
RULES = (FOLDER / "pgrepl.rules.yml").read_text(encoding="utf-8")
BOARD = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))

_SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}
FAMILIES: list[Any] = list(Metrics(Snapshot()).collect())
LABELS = {
    family.name + suffix: {*family._labelnames, *(["le"] if suffix == "_bucket" else [])}
    for family in FAMILIES
    for suffix in _SUFFIXES[family.type]
}


def rule_expressions() -> list[str]:
    return re.findall(r"^ +expr: (.+)$", RULES, re.MULTILINE)


def board_expressions() -> list[str]:
    found = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    return [*found, BOARD["templating"]["list"][1]["query"]["query"]]


def used(expression: str) -> list[tuple[str, set[str]]]:
    """Return the metrics of an expression, each with the labels that it is chosen by."""
    return [
        (name, set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", chosen)))
        for name, chosen in re.findall(r"\b(pgrepl_\w+)\s*(?:\{([^}]*)\})?", expression)
    ]


@pytest.mark.parametrize("expression", [*rule_expressions(), *board_expressions()])
def test_every_metric_and_label_exists(expression):
    found = used(expression)
    assert found
    for name, labels in found:
        assert name in LABELS, name
        assert labels <= LABELS[name], (name, labels)
    for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        for label in grouped.split(", "):
            assert any(label in LABELS[name] for name, _ in found), label


def test_labels_in_the_texts_of_an_alert_are_those_of_its_metric():
    for rule in RULES.split("- alert: ")[1:]:
        (expression,) = re.findall(r"^ +expr: (.+)$", rule, re.MULTILINE)
        wanted = set(re.findall(r"\$labels\.(\w+)", rule))
        (first, _), *_ = used(expression)
        assert wanted <= LABELS[first], rule


def test_what_the_issue_asks_for_is_alerted():
    names = set(re.findall(r"- alert: (\w+)", RULES))
    assert {
        "PgreplSlotNearLoss",
        "PgreplTableParked",
        "PgreplDdlWaiting",
        "PgreplLag",
        "PgreplReceiverDown",
    } <= names


def test_unknown_metric_would_be_noticed():
    assert used('rate(pgrepl_nothing{a="b", c=~"d"}[5m])') == [("pgrepl_nothing", {"a", "c"})]


if shutil.which("promtool"):  # Debian's package prometheus, which no newcomer needs

    def test_promtool_accepts_the_rules():
        done = subprocess.run(
            ["promtool", "check", "rules", FOLDER / "pgrepl.rules.yml"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
