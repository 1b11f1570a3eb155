"""What is compiled and what is written in Python is the same: tests run over both."""

from __future__ import annotations

import pytest

from pgrepl.decoding.pgoutput import by_table
from pgrepl.native import native


@pytest.fixture(params=["Python"] if native is None else ["Python", "C"])
def core(request, monkeypatch):
    """Read payloads by Python alone, or with the compiled core."""
    monkeypatch.setattr(by_table, "native", native if request.param == "C" else None)
