"""Servers restart, a disk fills, a privilege or the slot is lost while a table is copied.

What is wrong is said, readers see no half table, and the same command goes on later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import (
    PgreplError,
    SourceError,
    SourceUnavailable,
    TargetUnavailable,
)
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from tests.support.database import Database
from tests.support.machine.kept_sessions import hang_up
from tests.support.machine.small_disk import database_on_small_disk, filled
from tests.support.running.copying import Recorder
from tests.support.running.live import Live

ROWS = 300
TABLE = "create table t (id int primary key, a int, body text)"
FILL = f"insert into app.t select g, 0, repeat('b', 500) from generate_series(1, {ROWS}) g"
WAYS = [
    pytest.param("whole", False, marks=pytest.mark.soak),
    ("whole", True),
    ("chunked", False),
    pytest.param("chunked", True, marks=pytest.mark.soak),
]
OTHER_WAYS = [
    ("whole", False),
    pytest.param("whole", True, marks=pytest.mark.soak),
    pytest.param("chunked", False, marks=pytest.mark.soak),
    ("chunked", True),
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 25)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 25)


@pytest.fixture(scope="module")
def frail_clusters(binaries) -> Iterator[tuple[Cluster, Cluster]]:
    """Return two servers that tests may stop."""
    with (
        Cluster(binaries=binaries, settings=LOGICAL_DECODING) as source,
        Cluster(binaries=binaries) as target,
    ):
        yield source, target
        hang_up(source)
        hang_up(target)


@pytest.fixture
def frail(frail_clusters, make_database) -> tuple[Database, Database]:
    source, target = frail_clusters
    return make_database(source, prefix="source"), make_database(target, prefix="target")


def begin(
    source: Database, target: Database, folder: Path, *, is_new: bool, user: str = ""
) -> Live:
    """Return a table that is copied and wrong, or that the target has not."""
    settings = {"dsn": source.dsn(user=user)} if user else {}
    live = Live(source, target, folder, settings=settings)
    live.begin("create table other (id int primary key)", *([] if is_new else [TABLE]))
    source.execute(*([f"set search_path = app; {TABLE}"] if is_new else []), FILL)
    live.follow()
    if not is_new:
        target.execute("update app_copy.t set a = -1")
    source.execute("update app.t set a = 1 where id % 2 = 0")
    return live


class AtOnce:
    """Acts once, when a table is read as a whole, or when some chunks of it are copied."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._pauses = 0
        self._is_done = False

    def act(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._act()

    def pause(self, seconds: float) -> None:
        self._pauses += 1
        if self._pauses == 4:
            self.act()
        time.sleep(min(seconds, 0.05))


def resync(live: Live, way: WayAsked, act: Callable[[], object] = lambda: None) -> None:
    config = live.config
    once = AtOnce(act)
    options = ResyncOptions(
        tables=TableSelection.of(["app.t"]), way=way, wait_s=60, pause=once.pause, jobs=2
    )
    resync_tables(
        *(config, config.source("shop"), options, Recorder({"data": once.act})),
        lambda copied: TableCopies(config).apply_waiting(
            "shop", [(t.schema_name, t.table_name) for t in copied]
        ),
    )


@contextmanager
def following(live: Live) -> Iterator[None]:
    """Receive and replay all the time, begun again whenever a server ends them."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.02):
            with suppress(PgreplError, psycopg.Error):
                live.follow()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    live.follow()


def assert_unseen(live: Live, *, is_new: bool) -> None:
    """Make sure that readers see no half table."""
    if is_new:
        assert live.target.value("select to_regclass('app_copy.t') is null")
    else:
        assert live.target.value("select count(*) from app_copy.t") == ROWS


def assert_done(live: Live) -> None:
    assert live.differences("t") == set()
    assert live.target.rows("select from replication.resync") == []
    assert live.target.rows("select from replication.parked_table") == []
    assert live.target.rows("select from replication.copy_part") == []
    left = "select relname from pg_class where relname ~ '^(pgrepl_)?shadow_'"
    assert live.target.rows(left) == []


@pytest.mark.parametrize(("way", "is_new"), WAYS)
def test_restarted_and_crashed_servers_cost_nothing_but_another_run(frail, tmp_path, way, is_new):
    source, target = frail
    live = begin(source, target, tmp_path, is_new=is_new)

    def restart(mode: str, *databases: Database) -> Callable[[], None]:
        def act() -> None:
            for database in databases:
                hang_up(database.cluster)
                database.cluster.restart(mode)

        return act

    with following(live):
        for side, act in (
            (SourceUnavailable, restart("fast", source)),
            (TargetUnavailable, restart("immediate", target)),
            (PgreplError, restart("immediate", source, target)),
        ):
            with pytest.raises(side):
                resync(live, way, act)
            assert_unseen(live, is_new=is_new)
            source.execute("update app.t set a = a + 1 where id % 3 = 0")
        resync(live, way)
    assert_done(live)


@pytest.mark.parametrize(("way", "is_new"), OTHER_WAYS)
def test_receive_and_replay_killed_meanwhile_lose_and_repeat_nothing(
    source, target, tmp_path, way, is_new
):
    live = begin(source, target, tmp_path, is_new=is_new)
    killed = []

    def kill(stack: ExitStack) -> None:
        for place in (
            "receiver.before_commit",
            "receiver.after_commit_before_feedback",
            "replayer.fenced",
            "replayer.before_commit",
            "replayer.after_commit",
        ):
            source.execute(
                "update app.t set a = a + 1 where id % 3 = 0",
                "update app.t set id = 1000 - id where id in (40, 260)",
            )
            killed.append(live.follow_until_killed(f"{place}:kill"))
            assert_unseen(live, is_new=is_new)
        stack.enter_context(following(live))

    with ExitStack() as stack:
        resync(live, way, lambda: kill(stack))
    assert killed == [True] * 5
    assert_done(live)


@pytest.mark.parametrize(("way", "is_new"), OTHER_WAYS)
def test_privilege_revoked_meanwhile_is_named_and_granted_it_goes_on(frail, tmp_path, way, is_new):
    source, target = frail
    source.execute(
        "do $$ begin if to_regrole('reader') is null then create role reader login replication;"
        " end if; end $$",
        "alter default privileges grant select on tables to reader",
        "alter default privileges grant usage on schemas to reader",
    )
    live = begin(source, target, tmp_path, is_new=is_new, user="reader")

    def revoke() -> None:
        source.execute("revoke select on app.t from reader")

    with following(live):
        with pytest.raises(SourceError, match=r"permission denied for table t") as raised:
            resync(live, way, revoke)
        assert raised.value.hint is not None
        assert "GRANT" in raised.value.hint
        assert_unseen(live, is_new=is_new)
        with pytest.raises(SourceError, match=r"app\.t") as raised:
            resync(live, way)
        assert "GRANT SELECT" in f"{raised.value.message} {raised.value.hint}"
        source.execute("update app.t set a = 7 where id < 50", "grant select on app.t to reader")
        resync(live, way)
    assert_done(live)


@pytest.mark.parametrize(("way", "is_new"), WAYS)
def test_slot_lost_meanwhile_is_named_and_nothing_is_called_copied(
    source, target, tmp_path, way, is_new
):
    live = begin(source, target, tmp_path, is_new=is_new)

    def drop() -> None:
        source.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")

    with pytest.raises(SourceError, match=r'slot "pgrepl_.*does not exist any more') as raised:
        resync(live, way, drop)
    assert "pgrepl basebackup shop --restart" in str(raised.value.hint)
    assert_unseen(live, is_new=is_new)
    with pytest.raises(SourceError, match="does not exist any more"):
        resync(live, way)


@pytest.mark.parametrize(("way", "is_new"), OTHER_WAYS)
def test_full_disk_meanwhile_is_named_and_freed_it_goes_on(
    frail_clusters, source, tmp_path, way, is_new
):
    with database_on_small_disk(frail_clusters[1], 64) as (target, place):
        live = begin(source, target, tmp_path, is_new=is_new)
        source.execute(
            "update app.t set body = (select string_agg(md5((id * 1000 + n)::text), '')"
            " from generate_series(1, 300) n)"
        )
        live.follow()
        if not is_new:
            target.execute("update app_copy.t set a = -1, body = ''", "vacuum full app_copy.t")
        with filled(place, 512 * 1024), pytest.raises(TargetUnavailable, match="No space left"):
            resync(live, way)
        assert_unseen(live, is_new=is_new)
        with following(live):
            source.execute("update app.t set a = 8 where id % 5 = 0")
            resync(live, way)
        assert_done(live)
        hang_up(frail_clusters[1])
