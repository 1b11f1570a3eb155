"""A resync that is cancelled: what waited is applied, what was due stays due, whoever is killed."""

from __future__ import annotations

import signal
import threading

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import UsageError
from pgrepl.resync.cancel import cancel_tables
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.report import CancelledError, ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.meanwhile import meanwhile
from tests.support.program import run_pgrepl
from tests.support.running.backlog import die_at
from tests.support.running.copying import Recorder
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.waiting import wait_until


@pytest.fixture
def half_copied(source, target, tmp_path) -> Pipeline:
    """Return a source whose resync was killed, of a table that was due; a change waits for it."""
    source.execute("create table a (id int primary key, v text)", "insert into a values (1, 'old')")
    made = Pipeline(source, target)
    made.copy()
    target.execute(
        "insert into replication.resync_due select source_id, 'public', 'a', 'random()'"
        " from replication.source"
    )
    config = write_copy_config(tmp_path, source, target)
    killed = run_pgrepl(
        *("resync", source.name, "public.a", "--config", config),
        env={"PGREPL_FAILPOINT": "resync.copied:kill"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    source.execute("update a set v = 'new'")
    made.receive()
    made.replay(ALONE)
    assert waiting(made) == 1
    return made


def waiting(pipeline: Pipeline) -> int:
    return int(pipeline.target.value("select count(*) from replication.parked_message"))


def due(pipeline: Pipeline) -> int:
    return int(pipeline.target.value("select count(*) from replication.resync_due"))


def cancel(pipeline: Pipeline) -> dict[tuple[str, str], str]:
    config = pipeline.config
    own = config.sources[pipeline.source.name]
    return dict(cancel_tables(config, own, TableSelection.of(["*.*"]), 30))


def test_table_that_was_due_is_due_after_its_resync_is_cancelled(half_copied):
    assert cancel(half_copied) == {("public", "a"): "cancelled"}
    assert (waiting(half_copied), due(half_copied)) == (0, 1)
    assert half_copied.parked() == []
    assert half_copied.differences() == []


@pytest.mark.parametrize("place", ["resync.before_cancel_commit", "resync.cancelled"])
def test_killed_while_it_is_cancelled_the_table_goes_on(half_copied, place):
    die_at(place, lambda: cancel(half_copied))
    if place == "resync.cancelled":
        with pytest.raises(UsageError, match="no resync"):
            cancel(half_copied)
    else:
        assert waiting(half_copied) == 1
        assert cancel(half_copied) == {("public", "a"): "cancelled"}
    assert (waiting(half_copied), due(half_copied)) == (0, 1)
    assert half_copied.parked() == []
    half_copied.source.execute("insert into a values (2, 'later')")
    half_copied.apply(ALONE)
    assert half_copied.differences() == []


#: What a resync waits for, as long as a session of a side is in a transaction with a statement.
WAITS = {
    "a writer on the target": ("target", "update {copy}.a set v = v", "whole"),
    "a lock on the source": ("source", "lock table a", "whole"),
    "a lock on the source, for chunks": ("source", "lock table a", "chunked"),
    "replay": ("target", "select from replication.shard_progress for update", "whole"),
    "replay, for chunks": (
        "target",
        "select from replication.shard_progress for update",
        "chunked",
    ),
}


@pytest.mark.parametrize("what", WAITS)
def test_resync_that_waits_says_for_whom_and_hears_that_it_is_cancelled(
    source, target, monkeypatch, caplog, what
):
    side, statement, asked = WAITS[what]
    way: WayAsked = "chunked" if asked == "chunked" else "whole"
    monkeypatch.setattr("pgrepl.resync.waiting.TOLD_AFTER_S", 0.1)
    source.execute("create table a (id int primary key, v text)", "insert into a values (1, 'old')")
    made = Pipeline(source, target)
    made.copy()
    made.apply(ALONE)
    config, own = made.config, made.config.sources[source.name]
    with (target if side == "target" else source).connect() as holder:
        holder.autocommit = False

        def hold() -> None:
            holder.execute(statement.format(copy=made.schema()).encode())

        def ask(stop: threading.Event) -> None:
            """Have it cancelled when it has said for whom it waits."""
            wait_until(lambda: str(holder.info.backend_pid) in caplog.text or stop.is_set())
            target.execute("update replication.resync set is_cancelled = true")

        options = ResyncOptions(tables=TableSelection.of(["*.*"]), way=way, wait_s=30)
        watcher = Recorder({"waiting": hold, "chunks": hold})
        with meanwhile(ask), pytest.raises(CancelledError):
            resync_tables(config, own, options, watcher)
        assert str(holder.info.backend_pid) in caplog.text
        holder.rollback()
    assert cancel(made) == {("public", "a"): "cancelled"}
    made.apply(ALONE)
    assert made.parked() == []
    assert made.differences() == []
