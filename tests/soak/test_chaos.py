"""Faults of all kinds under mixed load, one after the other; the target is the source in the end.

How long: ``PGREPL_SOAK_MINUTES``, 5 unless given. ``PGREPL_SOAK_SEED`` repeats a run's choices.
"""

from __future__ import annotations

import collections
import os
import random
import time

import pytest

from tests.soak.chaos.faults import FAULTS
from tests.soak.chaos.scene import Scene

MINUTES = float(os.environ.get("PGREPL_SOAK_MINUTES", "5"))
SEED = int(os.environ.get("PGREPL_SOAK_SEED") or int.from_bytes(os.urandom(3), "big"))
#: After how many faults source and target are compared.
ROUND = 25


@pytest.mark.timeout(MINUTES * 60 * 3 + 900)
def test_target_is_the_source_whatever_happens(tmp_path, binaries, quick_java, capsys):  # noqa: ARG001
    dice = random.Random(SEED)
    counts: collections.Counter[str] = collections.Counter()
    comparisons = 0

    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)  # noqa: T201

    say(f"\nchaos: seed {SEED}, {MINUTES:g} minutes")
    with Scene(tmp_path, binaries, SEED) as scene:
        until = time.monotonic() + MINUTES * 60
        while time.monotonic() < until:
            for _ in range(ROUND):
                fault = dice.choices(list(FAULTS), list(FAULTS.values()))[0]
                say(f"  {time.strftime('%X')} {fault.__name__}")
                fault(scene, dice)
                counts[fault.__name__] += 1
                time.sleep(dice.uniform(0, 1.5))
            scene.heal()
            differences = scene.differences()
            comparisons += 1
            assert differences == []
            assert scene.reader.wrong == []
            say(f"chaos: {counts.total()} faults, {scene.reader.read_count} reads, 0 differences")
        for source in scene.sources:
            scene.run("verify", source.name)
        written = sum((source.load.counts for source in scene.sources), collections.Counter[str]())
        ends = {s.name: dict(s.ends) for s in (scene.replay, *(x.service for x in scene.sources))}
        reads = scene.reader.read_count
    say(f"chaos: faults {dict(counts)}, in all {counts.total()}")
    say(f"chaos: transactions {dict(written)}, in all {written.total()}")
    say(f"chaos: {reads} reads, {comparisons} comparisons, 0 differences; ends by code {ends}")
