"""One fault after the other, from a shuffled deck of cards; some go on beside the next ones.

The first deck has every kind once, those after it as often as their weights say: so every kind
comes, however short a run is.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

from tests.soak.chaos.faults import (
    ALONE,
    LASTING,
    RECOVERING,
    Fault,
    fill_disk_of_target,
)
from tests.soak.chaos.scene import Scene


class Happenings(AbstractContextManager["Happenings"]):
    """``counts`` says how often each fault came."""

    def __init__(
        self, scene: Scene, seed: int, faults: Mapping[Fault, int], say: Callable[[str], None]
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._scene = scene
        self._dice = random.Random(seed)
        self._faults = faults
        self._deck: list[Fault] = []
        self._say = say
        self._pool = ThreadPoolExecutor(len(LASTING))
        self._lasting: dict[Fault, Future[None]] = {}

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def next(self) -> None:
        """Let something happen, and a moment pass."""
        if not self._deck:
            weights = dict.fromkeys(self._faults, 1) if not self.counts else self._faults
            self._deck = [fault for fault, weight in weights.items() for _ in range(weight)]
            self._dice.shuffle(self._deck)
        fault = self._deck.pop()
        # What a fault draws does not change what comes after it.
        own = random.Random(self._dice.getrandbits(32))
        pause_s = self._dice.uniform(0.2, 3)
        self._say(f"  {time.strftime('%X')} {self.counts.total() + 1} {fault.__name__}")
        if fault in ALONE:
            self.end()
        if fault in RECOVERING:
            # No server recovers on a disk that is full.
            self._end(fill_disk_of_target)
        if fault in LASTING:
            self._end(fault)
            self._lasting[fault] = self._pool.submit(fault, self._scene, own)
        else:
            fault(self._scene, own)
        self.counts[fault.__name__] += 1
        time.sleep(pause_s)

    def end(self) -> None:
        """Wait until nothing goes on any more, and take away what is left of it."""
        for fault in [*self._lasting]:
            self._end(fault)
        self._scene.heal()

    def _end(self, fault: Fault) -> None:
        if fault in self._lasting:
            self._lasting.pop(fault).result()
