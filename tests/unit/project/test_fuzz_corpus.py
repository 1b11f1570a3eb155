"""What fuzzers have kept is read without surprise, and so is what is cut or turned at random."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from pgrepl.errors import PgreplError
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())


def test_every_target_has_a_corpus():
    assert {path.parent.name for path in FILES} == set(TARGETS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_input_is_read_or_refused(path):
    target, data = TARGETS[path.parent.name], path.read_bytes()
    with suppress(PgreplError):
        target(data)
    dice = random.Random(path.name)
    for _ in range(20):
        changed = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(changed) + 1)
            changed[at : at + dice.choice([0, 1, 1, 4])] = dice.randbytes(dice.choice([0, 1, 1, 2]))
        with suppress(PgreplError):
            target(bytes(changed))
