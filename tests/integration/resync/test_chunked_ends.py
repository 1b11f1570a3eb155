"""A copy in chunks ends, whatever the source writes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.decoding.shape import Shape
from pgrepl.errors import TargetUnavailable
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.replayer.chunked.key_staging import KeyStaging
from pgrepl.replayer.session import open_session
from pgrepl.replayer.target_table import Tables
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.chunked import ObstacleError
from pgrepl.resync.release import TableCopies, retry_waiting
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.resync.resync_chunks import ChunkRow
from tests.support.running.copying import Recorder
from tests.support.running.live import SETTINGS, Live

TABLE = (
    "create table t (id int primary key, a int, body text);"
    " alter table t alter body set storage external"
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 25)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 25)


@pytest.fixture
def live(source, target, tmp_path) -> Live:
    live = Live(source, target, tmp_path).begin(TABLE)
    source.execute(
        "insert into app.t select g * 10, g, repeat('x', 3000) from generate_series(1, 60) g"
    )
    live.follow()
    return live


def _shape(live: Live) -> Shape:
    with connect(live.config.target.endpoint, "test") as connection:
        shape = Tables(connection, live.row.source_id, Lsn(0)).look_up(("app", "t")).shape
    assert shape is not None
    return shape


def test_keys_of_many_changes_are_not_each_compared_with_all_others(live, target):
    shape = _shape(live)
    chunks = [ChunkRow(7, True, None, ["40"], "3:3:", Lsn(1))]
    keys = [(7, (b"%d" % n,)) for n in range(1, 301)]
    with (
        connect(target.endpoint(Side.TARGET), "test") as connection,
        connection.transaction(),
        KeyStaging(connection, shape, ["id"]) as staging,
    ):
        staging.add(keys, "UTF8")
        staging.add_read([(("50",), 7), (("60",), 6), (("70",), None), (("50",), None)])
        zones = staging.zones(chunks, ["200"], {7}, is_copied=False)
        ((scans,),) = connection.execute(
            "select pg_stat_get_xact_numscans('pg_temp.pgrepl_keys'::regclass)"
        ).fetchall()
    found = {key: zones[n][1].value for n, (_, (key,)) in enumerate(keys)}
    assert {key for key, zone in found.items() if zone == "ahead"} == {
        *(b"%d" % n for n in range(1, 41)),
        b"50",
    }
    assert {key for key, zone in found.items() if zone == "open"} == {
        *(b"%d" % n for n in range(201, 301)),
        b"70",
    }
    # A scan for every key made a batch of many changes last for minutes, and the next one larger.
    assert scans < 10


def _moving(live: Live) -> Callable[[float], None]:
    """Return a pause in which replay comes nearer, but the row has moved on before."""
    keys = iter(range(5, 2000, 10))
    state = {"key": 590}

    def pause(_: float) -> None:
        live.receive()
        key = next(keys)
        # Its long value does not change, so that it is not sent.
        live.source.execute(f"update app.t set id = {key} where id = {state['key']}")
        state["key"] = key
        live.replay()

    return pause


def test_row_that_moves_faster_than_replay_follows_is_not_read_again_for_ever(live, monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run._MOST_ROUNDS", 5)
    live.target.execute("update app_copy.t set a = 0")
    with pytest.raises(ObstacleError, match="change faster than replay follows"):
        live.resync("t", pause=_moving(live))
    config = live.config
    options = ResyncOptions(tables=TableSelection.of(["app.t"]), pause=_moving(live))
    with live.streaming():
        resync_tables(
            *(config, config.source("shop"), options, Recorder()),
            lambda _: TableCopies(config).apply_waiting("shop", [("app", "t")]),
        )
    assert live.differences("t") == set()


def test_replay_that_moves_is_waited_for_however_long_it_takes(live, monkeypatch):
    """The clock says at each look that the time to wait is over."""
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr("pgrepl.resync.chunked.run.time.monotonic", lambda: float(next(clock)))
    pauses = []

    def pause(_: float) -> None:
        pauses.append(1)
        live.source.execute("update app.t set a = a + 1 where id = 10")
        live.receive()
        live.source.execute("update app.t set a = a + 1 where id = 600")
        live.replay()

    live.resync("t", pause=pause, wait_s=1)
    assert live.target.rows("select from replication.resync") == []
    live.follow()
    assert live.differences("t") == set()
    with pytest.raises(TargetUnavailable, match="replay to pass the last chunk"):
        live.resync("t", wait_s=1)


def park(live: Live) -> None:
    """Have changes of the table wait for a person."""
    live.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, kind, reason)"
        " select source_id, 'app', 't', 'failed', 'a test parked it' from replication.source"
    )


@pytest.fixture
def parked(live: Live) -> Live:
    """Return a table that was parked after its last chunk, which contains what waits."""
    live.source.execute(
        "update app.t set a = -1 where id = 20; delete from app.t where id = 30;"
        " insert into app.t values (35, 1, 'new'); update app.t set id = 45 where id = 40"
    )
    with pytest.raises(TargetUnavailable, match="replay to pass"):
        live.resync("t", wait_s=0)
    park(live)
    live.follow()
    return live


def test_what_waits_for_a_table_parked_after_its_last_chunk_is_applied_once(parked):
    config = parked.config
    with pytest.raises(ObstacleError, match="its changes are not applied"):
        parked.resync("t")
    with closing(open_session(config.target.endpoint, SETTINGS)) as connection:
        assert retry_waiting(config, connection, "shop", ("app", "t")) == 4
    with parked.streaming():
        parked.resync("t")
    assert parked.differences("t") == set()
    assert parked.target.rows("select from replication.resync") == []


def test_table_parked_after_its_last_chunk_is_marked_when_its_resync_is_cancelled(parked):
    config = parked.config
    outcomes = cancel_tables(config, config.source("shop"), TableSelection.of(["app.t"]), 60)
    assert outcomes == {("app", "t"): "cancelled"}
    reason = parked.target.value("select resync_reason from replication.source_table")
    assert reason == "its resync was cancelled"
    options = ResyncOptions(tables=TableSelection.of(["*.*"]), is_where_needed=True)
    resync_tables(
        *(config, config.source("shop"), options, Recorder()),
        lambda _: TableCopies(config).apply_waiting("shop", [("app", "t")]),
    )
    assert parked.differences("t") == set()


class StoppedError(Exception):
    """A resync goes no further than its first chunk."""


def stop(_: float) -> None:
    raise StoppedError


@pytest.mark.parametrize(
    "change",
    [
        "update app.t set a = -1 where id = 550; update app.t set a = 1000 where id = 500",
        "insert into app.t values (500, 1000, 'new')",
    ],
)
def test_change_that_gave_way_to_a_copied_row_marks_a_table_whose_resync_is_cancelled(live, change):
    if change.startswith("insert"):
        live.source.execute("delete from app.t where id = 500")
        live.follow()
    for side, schema in ((live.source, "app"), (live.target, "app_copy")):
        side.execute(f"create unique index on {schema}.t (a)")
    live.source.execute(
        "create table app.other (id int)",
        change,
        # What comes before it is applied apart.
        "truncate app.other",
        "update app.t set a = 1001 where id = 500",
        "update app.t set a = 1000 where id = 20",
    )
    with pytest.raises(StoppedError):
        live.resync("t", pause=stop)
    live.follow()
    assert live.differences("t") != set()
    config = live.config
    outcomes = cancel_tables(config, config.source("shop"), TableSelection.of(["app.t"]), 60)
    assert outcomes == {("app", "t"): "cancelled"}
    marked = "select resync_reason from replication.source_table where table_name = 't'"
    assert live.target.value(marked) == "its resync was cancelled"
