"""pg_upgrade of sources and of the target: receiving goes on without a new copy.

Both servers are upgraded once, from the version of ``--pg-old-bindir``, else to the one that they
have: pg_upgrade makes a server of its own all the same, without origins, and before PostgreSQL 17
without slots.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pgrepl.errors import PgreplError, SourceError, TargetError
from pgrepl.lsn import Lsn
from pgrepl.receiver import Adoption, Receiver, ReceiverSettings, adopt
from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from tests.support.database import Database
from tests.support.machine.kept_sessions import hang_up
from tests.support.program import run_pgrepl, write_config
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.upgrading import upgrade
from tests.support.waiting import wait_until

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)

#: It does not try again for so long that the test is over.
PATIENT = ReceiverSettings(backoff_s=3600, backoff_limit_s=3600)

#: What a source is like after pg_upgrade.
NAMES = ("quiet", "written", "doubtful", "taken", "early")


@dataclass
class Upgraded(Pipeline):
    """A source whose server was upgraded, with that of its target."""

    def adopt(self, **options: bool) -> Adoption:
        hang_up(self.source.cluster)
        config = self.config
        return adopt(config, config.sources[self.source.name], **options)

    def ask(self, query: str) -> object:
        """Return a value of the source's row on the target."""
        return self.target.value(
            f"select {query} from replication.source s join replication.receive_progress p"
            f" using (source_id) where s.name = '{self.source.name}'"
        )

    def marked(self) -> Sequence[str]:
        rows = self.target.rows(
            "select table_name::text from replication.source_table join replication.source s"
            f" using (source_id) where s.name = '{self.source.name}'"
            " and resync_reason is not null order by 1"
        )
        return [table for (table,) in rows]


@contextmanager
def receiving(pipeline: Upgraded) -> Iterator[None]:
    """Receive beside the block, in which the source shuts down, until the receiver has seen it."""
    config = pipeline.config
    receiver = Receiver(config, config.sources[pipeline.source.name], settings=PATIENT)
    thread = threading.Thread(target=receiver.run)
    thread.start()
    try:
        slot = f"pgrepl_{pipeline.source.name}"
        active = f"select active from pg_replication_slots where slot_name = '{slot}'"
        wait_until(lambda: pipeline.source.value(active))
        pipeline.source.execute("insert into t values (3)")
        wait_until(lambda: pipeline.ask("change_count = 2"))
        yield
        wait_until(lambda: pipeline.ask("shutdown_lsn = received_lsn"))
    finally:
        receiver.stop()
        thread.join()


@pytest.fixture(scope="module")
def upgraded(binaries, old_binaries) -> Iterator[dict[str, Upgraded]]:
    with (
        Cluster(binaries=old_binaries, settings=LOGICAL_DECODING) as cluster,
        Cluster(binaries=old_binaries, settings=LOGICAL_DECODING) as other,
    ):
        target = Database(other, "warehouse")
        target.create()
        made = {name: _copied(Database(cluster, name), target) for name in NAMES}
        with ExitStack() as stack:
            for name in NAMES:
                stack.enter_context(receiving(made[name]))
            hang_up(cluster)
            cluster.stop()
        hang_up(other)
        other.stop()
        with ThreadPoolExecutor() as pool:
            list(pool.map(upgrade, (cluster, other), (binaries, binaries)))
        yield made


def _copied(source: Database, target: Database) -> Upgraded:
    source.create()
    source.execute(
        "create table t (id int primary key)",
        "create table emptied (id int primary key)",
        "create table nothing (id int primary key)",
        "create table part (id int primary key) partition by range (id)",
        "create table part_1 partition of part for values from (0) to (100)",
        *(f"insert into {table} values (1)" for table in ("t", "emptied", "part")),
    )
    pipeline = Upgraded(source, target)
    pipeline.copy()
    source.execute("insert into t values (2)")
    pipeline.receive()
    return pipeline


def lose_slot(pipeline: Upgraded) -> bool:
    """Drop the slot if pg_upgrade brought it along, and say whether it did."""
    dropped = pipeline.source.rows(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
        f" where slot_name = 'pgrepl_{pipeline.source.name}'"
    )
    return bool(dropped)


def kill_adopt(pipeline: Upgraded, folder: Path, place: str) -> Path:
    """Let it die somewhere, and return the configuration."""
    sources = {pipeline.source.name: pipeline.source.dsn()}
    config = write_config(folder / "pgrepl.toml", pipeline.target.dsn(), sources)
    hang_up(pipeline.source.cluster)
    dead = run_pgrepl("adopt", "--config", config, env={"PGREPL_FAILPOINT": f"{place}:kill"})
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    return config


def test_source_and_target_go_on_without_a_new_copy(upgraded, tmp_path):
    quiet = upgraded["quiet"]
    with pytest.raises(TargetError, match="does not exist on the target") as refused:
        quiet.receive()
    assert "pgrepl adopt quiet" in str(refused.value.hint)
    kill_adopt(quiet, tmp_path, "adopt.origin_created")
    with pytest.raises(PgreplError):
        quiet.receive()
    received = Lsn.parse(str(quiet.ask("received_lsn")))
    adoption = quiet.adopt()
    assert (adoption.origin, adoption.marked) == (received, ())
    assert adoption.position > received
    assert quiet.marked() == []
    quiet.source.execute("insert into t values (4)", "insert into part values (2)")
    quiet.apply(ALONE)
    assert quiet.differences() == []
    assert quiet.ask("shutdown_lsn") is None
    assert quiet.adopt() == Adoption("quiet")


def test_what_was_written_before_the_slot_was_there_is_copied_again(upgraded, tmp_path):
    written = upgraded["written"]
    lose_slot(written)
    written.source.execute("insert into part values (7)", "truncate emptied")
    # As if pg_upgrade had been able to bring the slot along, and it was dropped before.
    written.target.execute(
        "update replication.source set server_version = 170000 where name = 'written'"
    )
    # The next run makes another slot, and finds the same.
    config = kill_adopt(written, tmp_path, "adopt.slot_made")
    assert written.marked() == []
    done = run_pgrepl("adopt", "--config", config)
    assert done.returncode == 50, done.stderr
    assert re.fullmatch(
        r"written: goes on with the upgraded server from \S+; 2 tables marked for a resync\n",
        done.stdout,
    )
    assert "pgrepl resync written --where-needed" in done.stderr
    assert written.marked() == ["emptied", "part_1"]


def test_killed_when_the_server_is_taken_on_it_is(upgraded, tmp_path):
    taken = upgraded["taken"]
    kill_adopt(taken, tmp_path, "adopt.taken_on")
    assert taken.adopt() == Adoption("taken")
    taken.source.execute("insert into t values (4)", "insert into part values (2)")
    taken.apply(ALONE)
    assert taken.differences() == []


def test_slot_that_pg_upgrade_brings_along_has_what_is_written_early(upgraded, old_binaries):
    """From PostgreSQL 17 on; before, the table is marked."""
    early = upgraded["early"]
    early.source.execute("insert into t values (8)")
    is_brought = old_binaries.version >= (17, 0)
    adoption = early.adopt()
    assert adoption.marked == (() if is_brought else (("public", "t"),))
    early.source.execute("insert into t values (9)")
    early.receive()
    assert early.replay(ALONE).error is None
    assert early.differences() == ([] if is_brought else ["t"])


def test_doubt_is_refused_and_marks_all_tables_on_request(upgraded):
    doubtful = upgraded["doubtful"]
    lose_slot(doubtful)
    hang_up(doubtful.source.cluster)
    with (
        doubtful.source.connect(),
        pytest.raises(SourceError, match="1 other session of the database may have written"),
    ):
        doubtful.adopt()
    # As if no receiver had run when the server shut down.
    doubtful.target.execute(
        "update replication.receive_progress set shutdown_lsn = null where source_id ="
        " (select source_id from replication.source where name = 'doubtful')"
    )
    with pytest.raises(SourceError, match="received to its end") as refused:
        doubtful.adopt()
    assert "pgrepl adopt doubtful --resync" in str(refused.value.hint)
    slots = "select count(*) from pg_replication_slots where database = 'doubtful'"
    assert (doubtful.source.value(slots), doubtful.marked()) == (0, [])
    adoption = doubtful.adopt(may_mark_all=True)
    assert ("public", "nothing") in adoption.marked
    assert doubtful.marked() == [name for _, name in adoption.marked]
    doubtful.receive()
