"""From commit to visible under a steady load, with the programs as a person runs them."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import quantiles
from typing import Any

from bench.measuring.cpu import cpu_of, cpu_seconds, find_below
from bench.measuring.rig import MARKER, NATIVE, Rig, wait_for
from bench.measuring.workloads import WORKLOADS
from tests.support.database import Database
from tests.support.program import COMMAND, write_config

__all__ = ["RATES", "measure_latency"]

RATES = (50, 500)
_PROBE_S = 0.1
_LOOK_S = 0.005
_SETTLE_S = 3.0
_MOST_BEFORE_S = 60.0


def measure_latency(
    rig: Rig, seconds: float, found: list[dict[str, Any]], save: Callable[[], None]
) -> None:
    """Measure each rate with a native subscription and with each plugin."""
    name = "latency"
    rig.prepare(name, rig.make(WORKLOADS["tpcb"]))
    for rate in RATES:
        for who in (NATIVE, *rig.plugins):
            with _running(rig, name, who) as pids:
                measured = _probe(rig, name, who, pids, rate=rate, seconds=seconds)
                found.append({"rate": rate, "who": who, **measured})
            save()
            print(f"  {found[-1]}", flush=True)


@contextmanager
def _running(rig: Rig, name: str, who: str) -> Iterator[dict[str, int]]:
    """Let one of them follow the source; return its processes."""
    if who == NATIVE:
        rig.switch(name, is_on=True)
        yield {}
        rig.switch(name, is_on=False)
        return
    target = Database(rig.clusters["target"], f"{name}_{who}")
    more = (
        f'[spark]\nmaster = "local[4]"\n[sources.{name}]\nplugin = "{who}"\nslot = "{name}_{who}"\n'
    )
    config = write_config(rig.folder / "pgrepl.toml", target.dsn(), {}, more)
    text = config.read_text(encoding="utf-8")
    config.write_text(f"{text}dsn = '''{rig.source(name).dsn()}'''\n", encoding="utf-8")
    with ExitStack() as stack:
        pids = {}
        for command in (("receive", name), ("replay",)):
            program = stack.enter_context(_program([*COMMAND, *command, "--config", str(config)]))
            pids[command[0]] = program.pid
        wait_for(lambda: _has_worked(rig, name, pids["replay"]), 180)
        yield pids


@contextmanager
def _program(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as program:
        try:
            yield program
        finally:
            program.terminate()


def _has_worked(rig: Rig, name: str, pid: int) -> bool:
    """Commit something, and say whether Spark has workers by now: it starts them for a job."""
    rig.mark(name)
    time.sleep(_SETTLE_S / 10)
    java = find_below(pid, "java")
    return java != 0 and find_below(java, "python") != 0


def _probe(
    rig: Rig, name: str, who: str, pids: dict[str, int], *, rate: int, seconds: float
) -> dict[str, Any]:
    place = Database(rig.clusters[NATIVE], name) if who == NATIVE else rig.target(name, who)  # type: ignore[arg-type]
    schema = "public" if who == NATIVE else f"{name}_public"
    source = rig.source(name)
    load = subprocess.Popen(
        [
            *(str(rig.program("pgbench")), "-n", "-c", "4", "-j", "1"),
            *("-R", str(rate), "-T", str(int(seconds + _MOST_BEFORE_S)), source.dsn()),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    committed: dict[int, float] = {}
    seen: dict[int, float] = {}
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(place, schema, committed, seen, is_over))
    watcher.start()
    # What was committed while others were measured is worked off first: a backlog is no delay.
    marker = source.value(f"insert into {MARKER} default values returning id")
    wait_for(lambda: (place.value(f"select max(id) from {schema}.{MARKER}") or 0) >= marker)
    time.sleep(_SETTLE_S)
    before = _used(rig, pids)
    with source.connect() as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            row = connection.execute(
                f"insert into {MARKER} default values returning id".encode()
            ).fetchone()
            committed[row[0]] = time.monotonic()  # type: ignore[index]
            time.sleep(_PROBE_S)
    after = _used(rig, pids)
    wait_for(lambda: committed.keys() <= seen.keys(), 120)
    is_over.set()
    watcher.join()
    load.terminate()
    load.wait()
    delays = [seen[marker] - at for marker, at in committed.items()]
    cuts = quantiles(delays, n=20)
    cpu = {key: round((after[key] - before[key]) / seconds, 3) for key in before}
    return {"p50_s": round(cuts[9], 3), "p95_s": round(cuts[18], 3), "cpu_per_s": cpu}


def _watch(
    place: Database,
    schema: str,
    committed: dict[int, float],
    seen: dict[int, float],
    is_over: threading.Event,
) -> None:
    """Note when each marker is there."""
    with place.connect() as connection:
        query = f"select coalesce(max(id), 0) from {schema}.{MARKER}".encode()
        while not is_over.is_set():
            row = connection.execute(query).fetchone()
            now = time.monotonic()
            for marker in [marker for marker in list(committed) if marker not in seen]:
                if marker <= row[0]:  # type: ignore[index]
                    seen[marker] = now
            time.sleep(_LOOK_S)


def _used(rig: Rig, pids: dict[str, int]) -> dict[str, float]:
    servers = {kind: cpu_seconds(cluster) for kind, cluster in rig.clusters.items()}
    return servers | {command: cpu_of(pid) for command, pid in pids.items()}
