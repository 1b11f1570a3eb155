"""What is compiled and what is written in Python is the same: tests run over both."""

from __future__ import annotations

import pytest

from pgrepl.native import native
from pgrepl.receiver.postgres.assembler import Assembler
from tests.support.messages.routing import take_by_core


@pytest.fixture(params=["Python"] if native is None else ["Python", "C"])
def core(request, monkeypatch):
    """Take frames by Python alone, or with the compiled core."""
    if request.param == "C":
        monkeypatch.setattr(Assembler, "take", take_by_core)
