"""A resync that is cancelled: what waited is applied, what was due stays due, whoever is killed."""

from __future__ import annotations

import signal

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import UsageError
from pgrepl.resync.cancel import cancel_tables
from tests.support.program import run_pgrepl
from tests.support.running.backlog import die_at
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE, Pipeline


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
