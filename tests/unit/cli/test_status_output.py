"""Bars and sizes."""

from __future__ import annotations

import pytest

from pgrepl.cli.output.plot import sparkline
from pgrepl.cli.output.status_lines import print_bytes


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([0.0, 0.0], "▁▁"),
        ([0.0, 5.0, 10.0], "▁▅█"),
        ([0.001], "█"),
        ([7, 6, 5, 4, 3, 2, 1, 0], "█▇▆▅▄▃▂▁"),
    ],
)
def test_sparkline_is_as_high_as_its_highest_value(values, bars):
    assert sparkline(values) == bars


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 kB"),
        (20 * 1024, "20 kB"),
        (3 << 30, "3.0 GB"),
        (5000 << 40, "5000 TB"),
    ],
)
def test_size_is_printed_in_the_unit_that_fits(count, text):
    assert print_bytes(count) == text
