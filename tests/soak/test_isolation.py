"""How long a change of one source takes while something is wrong with another one.

Nothing is asserted of times: they are printed, for docs/replay.md, each also as a multiple of what
it is while both are well. What is wrong is said by ``pgrepl status``, a lock with its pid.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.chaos.services import Service
from tests.support.database import Database
from tests.support.machine.proxy import Proxy
from tests.support.program import run_pgrepl, write_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until

SAMPLES = 40
ROLE = "pgrepl_isolated"
_PATIENCE_S = 600


class Pair:
    """A source that is well, and one that is ill."""

    def __init__(self, well: Database, ill: Database, target: Database, folder: Path) -> None:
        self.well, self.ill, self.target = well, ill, target
        self.proxy = Proxy(ill)
        self.table = f"{ill.name}_public.t"
        self._number = 0
        #: Of the session that holds a lock.
        self.blocker: int | None = None
        self.config = folder / "p.toml"

    def write_config(
        self, consistency: str, path: Path | None = None, user: str | None = None
    ) -> None:
        dsns = {self.well.name: self.well.dsn(), self.ill.name: self.proxy.dsn}
        more = f'[spark]\nmaster = "local[2]"\n[replay]\nconsistency = "{consistency}"\n'
        dsn = self.target.dsn(user=user) if user else self.target.dsn()
        path = path or self.config
        write_config(path, dsn, dsns, more)
        with path.open("a", encoding="utf-8") as file:
            file.write('max_spool = "1MB"\n')

    def run(self, *arguments: str) -> None:
        done = run_pgrepl(*arguments, "--config", self.config)
        assert done.returncode == 0, done.stderr

    def lag_s(self) -> float:
        """Return how long a change of the well source takes to be seen."""
        self._number += 1
        begin = time.monotonic()
        self.well.execute(f"insert into t values ({self._number}, 'x')")
        query = f"select from {self.well.name}_public.t where id = {self._number}"
        while not self.target.rows(query):
            time.sleep(0.005)
        return time.monotonic() - begin

    def said(self) -> list[str]:
        """Return what status says of the source that is ill."""
        done = run_pgrepl("status", self.ill.name, "--json", "--config", self.config)
        (source,) = json.loads(done.stdout)["sources"]
        tables = [table["parked_reason"] for table in source["tables"]["not_well"]]
        paused = ["paused"] if source["paused"] else []
        return [*paused, *(p["message"] for p in source["problems"]), *filter(None, tables)]

    def mark(self) -> None:
        """Have the ill source as it never was: its table may be empty before a change and after."""
        self._number += 1
        self.ill.execute(f"insert into t values ({-self._number}, 'mark')")

    def is_equal(self) -> bool:
        return all(
            checksums(own, "public") == checksums(self.target, f"{own.name}_public")
            for own in (self.well, self.ill)
        )


@contextmanager
def nothing(_pair: Pair) -> Iterator[None]:
    yield


@contextmanager
def small_changes(pair: Pair) -> Iterator[None]:
    """Let the ill source have changes all the time."""
    is_over = threading.Event()

    def write() -> None:
        number = 10**6
        while not is_over.wait(0.05):
            number += 1
            pair.ill.execute(f"insert into t values ({number}, 'y')")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        pair.ill.execute("delete from t where id > 1000000")


@contextmanager
def locked(pair: Pair) -> Iterator[None]:
    with small_changes(pair), pair.target.connect() as blocker:
        blocker.execute(f"begin; lock table {pair.table}".encode())
        pair.blocker = blocker.info.backend_pid
        yield
        pair.blocker = None


@contextmanager
def huge_transaction(pair: Pair) -> Iterator[None]:
    pair.ill.execute(
        "insert into t select 2000000 + g, md5(g::text) from generate_series(1, 400000) g"
    )
    yield
    pair.ill.execute("truncate t")


@contextmanager
def slow_trigger(pair: Pair) -> Iterator[None]:
    schema = f"{pair.ill.name}_public"
    pair.target.execute(
        f"create function {schema}.dawdle() returns trigger language plpgsql as"
        " 'begin perform pg_sleep(1); return new; end'",
        f"create trigger dawdle before insert on {pair.table} for each row"
        f" execute function {schema}.dawdle()",
        f"alter table {pair.table} enable always trigger dawdle",
    )
    with small_changes(pair):
        yield
        pair.target.execute(f"drop trigger dawdle on {pair.table}")
        pair.target.execute(f"drop function {schema}.dawdle()")


@contextmanager
def paused(pair: Pair) -> Iterator[None]:
    pair.run("pause", pair.ill.name)
    yield
    pair.run("resume", pair.ill.name)


@contextmanager
def full_spool(pair: Pair) -> Iterator[None]:
    with paused(pair):
        for number in range(20):
            pair.ill.execute(
                f"insert into t select {3 * 10**6 + 10000 * number} + g, md5(random()::text)"
                " from generate_series(1, 5000) g"
            )
        yield


@contextmanager
def corrupted(pair: Pair) -> Iterator[None]:
    name = pair.ill.name
    mine = f"source_id = (select source_id from replication.source where name = '{name}')"
    with paused(pair):
        pair.ill.execute("insert into t values (5000001, 'z')")
        count = f"select count(*) from replication.raw_messages where {mine}"
        wait_until(lambda: pair.target.value(count), timeout_s=_PATIENCE_S)
        first = pair.target.value(f"select min(seq) from replication.raw_messages where {mine}")
        flip = (
            "update replication.raw_messages set payload ="
            f" set_byte(payload, 0, get_byte(payload, 0) # 1) where {mine} and seq = {first}"
        )
        pair.target.execute(flip)
    yield
    pair.run("pause", name)
    pair.target.execute(flip)
    pair.run("resume", name)


@contextmanager
def dead(pair: Pair) -> Iterator[None]:
    pair.proxy.freeze(is_dark=True)
    yield
    pair.proxy.reset()
    pair.proxy.thaw()


@contextmanager
def revoked(pair: Pair) -> Iterator[None]:
    pair.target.execute(f"revoke all on {pair.table} from {ROLE}")
    with small_changes(pair):
        yield
    pair.target.execute(f"grant all on {pair.table} to {ROLE}")
    wait_until(
        lambda: pair.target.value("select count(*) from replication.parked_table"),
        timeout_s=_PATIENCE_S,
    )
    pair.run("parked", "retry", pair.ill.name, "public.t")


@contextmanager
def resynced(pair: Pair) -> Iterator[None]:
    pair.ill.execute(
        "insert into t select 6000000 + g, md5(g::text) from generate_series(1, 300000) g"
    )
    thread = threading.Thread(target=pair.run, args=("resync", pair.ill.name, "public.t"))
    thread.start()
    yield
    thread.join()
    pair.ill.execute("truncate t")


FAULTS = (
    nothing,
    small_changes,
    locked,
    huge_transaction,
    slow_trigger,
    full_spool,
    corrupted,
    dead,
    revoked,
    resynced,
)


def _told(lags: list[float], normal: list[float]) -> str:
    """Return the median, the 95th percentile and the longest, each beside the normal one."""
    parts = []
    for title, number in (("median", 0.5), ("95 %", 0.95), ("longest", 1.0)):
        place = min(int(SAMPLES * number), SAMPLES - 1)
        parts.append(f"{title} {lags[place]:.2f} s ({lags[place] / normal[place]:.1f} times)")
    return ", ".join(parts)


@pytest.fixture
def pair(source_cluster, target, make_database, tmp_path) -> Pair:
    """Return two sources, copied; a role other than the superuser may change their tables."""
    well, ill = (make_database(source_cluster, prefix=name) for name in ("well", "ill"))
    for own in (well, ill):
        own.execute("create table t (id int primary key, v text)")
    made = Pair(well, ill, target, tmp_path)
    made.write_config("shard")
    for own in (well, ill):
        made.run("basebackup", own.name)
    schemas = f"replication, {well.name}_public, {ill.name}_public"
    target.execute(
        f"create role {ROLE} login",
        f"grant all on schema {schemas} to {ROLE}",
        f"grant all on all tables in schema {schemas} to {ROLE}",
        f"grant all on all sequences in schema replication to {ROLE}",
        f"grant set on parameter session_replication_role to {ROLE}",
    )
    return made


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_lag_of_a_source_while_another_one_is_ill(pair, tmp_path, capsys, consistency):
    target = pair.target
    services = [
        Service(tmp_path, pair.config, "receive", own.name) for own in (pair.well, pair.ill)
    ]
    for_role = tmp_path / "role.toml"
    pair.write_config(consistency, for_role, ROLE)
    services.append(Service(tmp_path, for_role, "replay"))
    try:
        wait_until(pair.is_equal, timeout_s=_PATIENCE_S)
        for _ in range(10):
            pair.lag_s()
        normal: list[float] = []
        for fault in FAULTS:
            with fault(pair):
                lags = sorted(pair.lag_s() for _ in range(SAMPLES))
                said = pair.said()
                # Who holds a lock is said with its pid.
                pid = pair.blocker
                assert pid is None or any(f"{pid}" in text for text in said), said
            normal = normal or lags
            with capsys.disabled():
                print(  # noqa: T201
                    f"\n{consistency} {fault.__name__}: {_told(lags, normal)}; said: {said}",
                    end="",
                    flush=True,
                )
            pair.mark()
            wait_until(pair.is_equal, timeout_s=_PATIENCE_S)
    finally:
        for service in reversed(services):
            service.close()
        pair.proxy.close()
        target.execute(f"drop owned by {ROLE}", f"drop role {ROLE}")
