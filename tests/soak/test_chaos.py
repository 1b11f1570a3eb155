"""Faults of all kinds under mixed load, one after the other; the target is the source in the end.

How long: ``PGREPL_SOAK_MINUTES``, 5 unless given, and at least ``PGREPL_SOAK_FAULTS``.
``PGREPL_SOAK_SEED`` repeats a run's choices.
"""

from __future__ import annotations

import collections
import os
import time

import pytest

from tests.soak.chaos.clock import Clock
from tests.soak.chaos.faults import FAULTS, Fault, jump_clock
from tests.soak.chaos.happenings import Happenings
from tests.soak.chaos.scene import Scene

MINUTES = float(os.environ.get("PGREPL_SOAK_MINUTES", "5"))
LEAST_FAULTS = int(os.environ.get("PGREPL_SOAK_FAULTS", "0"))
SEED = int(os.environ.get("PGREPL_SOAK_SEED") or int.from_bytes(os.urandom(3), "big"))
#: After how many faults source and target are compared.
ROUND = 50


@pytest.mark.timeout(MINUTES * 60 * 3 + 900)
def test_target_is_the_source_whatever_happens(tmp_path, binaries, quick_java, capsys):  # noqa: ARG001
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)  # noqa: T201

    faults = {fault: weight for fault, weight in FAULTS.items() if _can_be(fault)}
    say(f"\nchaos: seed {SEED}, {MINUTES:g} minutes, in {tmp_path}")
    for fault in FAULTS.keys() - faults.keys():
        say(f"chaos: no {fault.__name__} here: there is no C compiler")
    comparisons = 0
    with Scene(tmp_path, binaries, SEED) as scene, Happenings(scene, SEED, faults, say) as faulty:
        begin = time.monotonic()

        def is_over() -> bool:
            has_lasted = time.monotonic() - begin >= MINUTES * 60
            return has_lasted and faulty.counts.total() >= LEAST_FAULTS

        with scene.explained(say):
            while not is_over():
                for _ in range(ROUND):
                    faulty.next()
                    assert scene.wrong == []
                    if is_over():
                        break
                faulty.end()
                differences = scene.differences(has_verify=is_over())
                comparisons += 1
                assert differences == []
                assert scene.wrong == []
                reads = scene.reader.read_count
                say(f"chaos: {faulty.counts.total()} faults, {reads} reads, 0 differences")
        minutes = (time.monotonic() - begin) / 60
        written = sum((source.load.counts for source in scene.sources), collections.Counter[str]())
        ends = {service.name: dict(service.ends) for service in scene.services}
    say(f"chaos: {minutes:.1f} minutes, seed {SEED}")
    say(f"chaos: faults {dict(faulty.counts)}, in all {faulty.counts.total()}")
    say(f"chaos: transactions {dict(written)}, in all {written.total()}")
    say(f"chaos: {reads} reads, {comparisons} comparisons, 0 differences; ends by code {ends}")


def _can_be(fault: Fault) -> bool:
    return fault is not jump_clock or Clock.can_jump
