"""docs/monitoring.md has every metric that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pgrepl.monitor import Snapshot
from pgrepl.monitor.web.metrics import Metrics

PAGE = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text(encoding="utf-8")
FAMILIES: list[Any] = list(Metrics(Snapshot()).collect())


def exposed_name(family: Any) -> str:
    return str(family.name) + ("_total" if family.type == "counter" else "")


def test_every_metric_is_documented_with_its_labels_and_meaning():
    rows = re.findall(r"^\| `(pgrepl_\w+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (
            exposed_name(family),
            ", ".join(f"`{label}`" for label in family._labelnames),
            family.documentation,
        )
        for family in FAMILIES
    ]


@pytest.mark.parametrize("family", FAMILIES, ids=exposed_name)
def test_names_follow_the_conventions_of_prometheus(family):
    name = exposed_name(family)
    assert re.fullmatch(r"pgrepl(_[a-z]+)+", name)
    assert not re.search(r"_(ms|kb|mb|minutes|count|total_total)$", name)
    assert (name.endswith("_total")) == (family.type == "counter")
