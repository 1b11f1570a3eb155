"""Tables larger than memory: what a resync takes, and what waited for it, does not grow."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.program import start_pgrepl
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import QUICK, Pipeline

ALONE = replace(QUICK, driver_changes=10**9)
#: Rows of about 2 kB that do not compress.
FILL = (
    "insert into app.t select g, (select string_agg(md5((g * 100 + n)::text), '')"
    " from generate_series(1, 60) n) from generate_series({first}, {last}) g"
)


def peak_kb(folder: Path, *arguments: str | Path, failpoint: str = "", code: int = 0) -> int:
    """Run the program, and return the most memory that it or one of its processes had."""
    env = {"PGREPL_FAILPOINT": failpoint} if failpoint else {}
    with (folder / "output").open("wb") as sink:
        program = start_pgrepl(*arguments, env=env, sink=sink, is_fresh=True)
        assert isinstance(program, subprocess.Popen)
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == code, (folder / "output").read_text()
    return usage.ru_maxrss


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "rows"),
    # What waited is applied by 64 MiB, which the smaller table has already.
    [("whole", (40_000, 100_000)), ("chunked", (500, 60_000))],
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
