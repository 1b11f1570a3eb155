"""Tables are copied again in all ways, two at a time, killed and cancelled at any moment.

Meanwhile they are written to, truncated, altered, renamed, swapped, attached and detached. How many
seeds: ``PGREPL_SOAK_SEEDS``, 20 unless given.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pgrepl.config.model import Plugin
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from tests.support.ddl.own_names import own_names
from tests.support.machine.fork_server import CHUNK_ROWS
from tests.support.meanwhile import again, meanwhile
from tests.support.program import start_pgrepl
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE
from tests.support.running.ruled import RuledPipeline, rule
from tests.support.workloads.upset import FILL, NAMES, TABLES, look, upset, write

SEEDS = int(os.environ.get("PGREPL_SOAK_SEEDS", "20"))
ROUNDS = 6
#: Done, killed, nothing to do by that name, something in the way on the source or the target, a
#: table that is parked, another resync that is under way. Nothing else may happen, but that it was
#: cancelled: only while that is done.
CODES = {0, -9, 2, 20, 30, 50, 75}
CANCELLED = 130
#: Names that tables have on the target: also those of one another.
RENAMED = {
    "items": "twin",
    "twin": "items",
    "goods": "other",
    "other": "goods",
    "codes": "marks",
    "days": "days_2",
    "days_2": "days_1",
    "days_1": "days",
    "fresh": "Fresh one",
}
PLACES = (
    *("parked", "waited", "made", "planned", "copied", "before_swap_commit", "swapped"),
    *("chunks_begun", "chunk_read", "before_chunk_commit", "chunk_placed", "before_chunks_end"),
)


class Ended(NamedTuple):
    """A command that ran, from when to when, and how it ended."""

    words: str
    code: int
    begun: float
    ended: float
    said: str

    def is_cancelled_by(self, others: Sequence[Ended]) -> bool:
        """Whether one of the others ended what was under way then."""
        return any(
            "--cancel" in other.words
            and other.code != 2
            and other.begun < self.ended
            and other.ended > self.begun
            for other in others
        )


class Commands:
    """Runs resyncs, and notes how they ended."""

    def __init__(self, config: Path, source: str, rows: int) -> None:
        self._config = config
        self._source = source
        self._env = {CHUNK_ROWS: str(rows)}
        self.ended: list[Ended] = []

    def run(self, *arguments: str, seconds: float | None = None, place: str = "") -> int:
        """Run one, killed after some time, or at a failpoint."""
        words = ("resync", self._source, *arguments, "--config", str(self._config))
        begun = time.monotonic()
        with tempfile.TemporaryFile() as sink:
            env = self._env | ({"PGREPL_FAILPOINT": f"resync.{place}"} if place else {})
            process = start_pgrepl(*words, env=env, sink=sink)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            sink.seek(0)
            said = sink.read().decode()[-2000:]
        self.ended.append(Ended(" ".join(arguments), code, begun, time.monotonic(), said))
        return code

    def disturb(self, dice: random.Random) -> Callable[[threading.Event], None]:
        """Return what runs some, at random."""

        def run(_stop: threading.Event) -> None:
            for _ in range(ROUNDS):
                table = f"app.{dice.choice(NAMES)}"
                if dice.random() < 0.2:
                    self.run(table, "--cancel", "--wait", "30")
                    continue
                more = ("--max-rate", "300kB/s") if dice.random() < 0.2 else ()
                way = dice.choice(("whole", "chunked", "chunked", "auto"))
                place = f"{dice.choice(PLACES)}:kill:{dice.randrange(1, 5)}"
                end: dict[str, Any] = dice.choice(
                    ({}, {"place": place}, {"seconds": dice.choice((0.5, 1.5, 4.0))})
                )
                self.run(table, "--way", way, "--wait", "30", *more, **end)

        return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("renamed", [{}, RENAMED], ids=["own names", "other names"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_tables_are_the_source_in_the_end(source, target, tmp_path, seed, renamed):
    dice = random.Random(seed)
    source.execute(TABLES, *FILL)
    plugin: Plugin = "wal2json" if seed % 2 else "pgoutput"
    rules = [rule(f"app.{name}", table=other) for name, other in renamed.items()]
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=rules)
    pipeline = replace(
        pipeline, ddl=Applier(pipeline.config), resync=Resyncer(pipeline.config, backoff_s=0.2)
    )
    pipeline.copy()
    install(pipeline.config.sources[source.name])
    pipeline.apply(ALONE)
    config = write_copy_config(tmp_path, source, target)
    config.write_text(f'{config.read_text()}plugin = "{plugin}"\n')
    with config.open("a", encoding="utf-8") as file:
        for name, other in renamed.items():
            file.write(f"[[sources.{source.name}.rules]]\ntables = ['app.{name}']\n")
            file.write(f"table = '{other}'\n")
    commands = Commands(config, source.name, dice.choice((20, 70)))
    wrong: list[tuple[str, object]] = []

    def read() -> None:
        wrong.extend(look(target, pipeline.schema("app"), renamed))

    follow = (
        again(pipeline.receive, 0.01),
        again(lambda: pipeline.replay(ALONE), 0.01),
        again(read, 0.02),
    )
    with meanwhile(
        *follow,
        upset(source, random.Random(f"{seed}/upset")),
        *(write(source, random.Random(f"{seed}/{n}")) for n in range(2)),
    ):
        resyncs = (commands.disturb(random.Random(f"{seed}/resync/{n}")) for n in range(2))
        with meanwhile(*resyncs):
            pass
    # DDL that is still to come makes a resync refuse.
    pipeline.receive()
    pipeline.replay(ALONE)
    with meanwhile(*follow):
        left = target.rows("select schema_name || '.' || table_name from replication.resync")
        for (table,) in left:
            assert commands.run(table, *dice.choice((("--cancel",), ()))) == 0, commands.ended[-1]
        assert commands.run("--where-needed") == 0, commands.ended[-1]
    told = [(each.words, each.code) for each in commands.ended]
    for each in commands.ended:
        is_cancelled = each.code == CANCELLED and each.is_cancelled_by(commands.ended)
        assert each.code in CODES or is_cancelled, commands.ended
    pipeline.apply(ALONE)
    assert wrong == [], told
    with own_names(target):
        assert pipeline.differences("app") == [], told
    assert target.rows("select * from replication.resync") == [], told
