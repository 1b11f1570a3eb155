"""Options of every command before its name."""

from __future__ import annotations

import pytest

from pgrepl.cli.leading_options import move_leading_options


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("status --json", "status --json"),
        ("--debug status shop", "status shop --debug"),
        ("-v --config a.toml parked list", "parked list -v --config a.toml"),
        ("--log-format=json replay --once", "replay --once --log-format=json"),
        ("--verbose verify shop -- -odd", "verify shop --verbose -- -odd"),
        ("--version", "--version"),
        ("--verbose --help", "--verbose --help"),
        ("--config", "--config"),
        ("", ""),
    ],
)
def test_options_of_every_command_may_stand_before_its_name(given, moved):
    assert move_leading_options(given.split()) == moved.split()
