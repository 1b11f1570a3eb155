"""Tables larger than memory: what a resync takes, and what waited for it, does not grow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.program import COMMAND
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import QUICK, Pipeline

ALONE = replace(QUICK, driver_changes=10**9)
#: Rows of about 2 kB that do not compress.
FILL = (
    "insert into app.t select g, (select string_agg(md5((g * 100 + n)::text), '')"
    " from generate_series(1, 60) n) from generate_series({first}, {last}) g"
)


#: Runs a program, and prints its exit code and the most memory that it or one of its processes had.
#: A process that is started has had, by what the kernel counts, what the one had that started it:
#: between this test and the program stands one that is small.
MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def peak_kb(folder: Path, *arguments: str | Path, failpoint: str = "", code: int = 0) -> int:
    """Run the program, and return the most memory that it or one of its processes had."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    with (folder / "output").open("wb") as sink:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *COMMAND, *arguments],
            env=env | ({"PGREPL_FAILPOINT": failpoint} if failpoint else {}),
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            check=True,
        )
    ended, peak = done.stdout.splitlines()[-1].split()
    assert int(ended) == code, (folder / "output").read_text()
    return int(peak)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "rows"),
    # What waited is applied by 16 MiB, which the smaller table has already.
    [("whole", (25_000, 75_000)), ("chunked", (500, 60_000))],
)
def test_memory_does_not_grow_with_the_table_or_with_what_waited(
    source, target, tmp_path, way, rows
):
    source.execute("create schema app", "create table app.t (id int primary key, body text)")
    pipeline = Pipeline(source, target)
    pipeline.copy()
    config = write_copy_config(tmp_path, source, target)
    command = ("resync", source.name, "app.t", "--way", way, "--config", config)

    def run(ids: range) -> int:
        """Copy it, with a transaction that changes every row between the copy and its end."""
        source.execute(FILL.format(first=ids.start, last=ids.stop - 1))
        pipeline.apply(ALONE)
        target.execute(f"update {pipeline.schema('app')}.t set body = ''")
        if way == "whole":
            failpoint = "resync.copied:kill"
            first = peak_kb(tmp_path, *command, failpoint=failpoint, code=-signal.SIGKILL)
        else:
            # It waits for replay in the end.
            first = peak_kb(tmp_path, *command, "--wait", "1", code=30)
        source.execute("update app.t set body = reverse(body)")
        pipeline.receive()
        pipeline.replay(ALONE)
        second = peak_kb(tmp_path, *command)
        assert pipeline.differences("app") == []
        return max(first, second)

    peaks, sizes = [], []
    for first, last in pairwise((1, *rows)):
        peaks.append(run(range(first, last)))
        sizes.append(source.value("select sum(length(body)) / 1024 from app.t"))
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) // 4, (peaks, sizes)
