"""Replay and housekeeping, each where the other meets it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgrepl.config.file import load_config
from pgrepl.housekeeping import Housekeeper
from pgrepl.replayer import Replayer
from pgrepl.store.sources import SourceRow
from tests.support.program import run_pgrepl
from tests.support.running.pipeline import NoDdl


@dataclass
class Diary(Housekeeper):
    """A housekeeper that only notes what it is told."""

    entries: list[tuple[str, object]] = field(default_factory=list)

    def caught_up(self, source: SourceRow) -> None:
        self.entries.append(("caught up", source.name))

    def stop(self, patience_s: float | None = 0.0) -> None:
        self.entries.append(("stop", patience_s))


def test_replay_of_an_empty_spool_keeps_house(household):
    household.execute_on_both("create sequence app.s")
    household.source.execute("select setval('s', 5)")
    done = run_pgrepl("replay", "--once", "--config", household.streaming.config)
    assert done.returncode == 0, done.stderr
    assert household.target.value("select last_value from shop_public.s") == 5


def test_housekeeping_gives_way_to_a_serial_transaction(source, target, stream_from):
    source.execute("create table t (id int primary key)", "insert into t values (1)")
    streaming = stream_from(source)
    target.execute(
        "create schema shop_public",
        "create table shop_public.t (id int primary key)",
        "insert into shop_public.t values (1)",
        f"insert into replication.target_schema values ('shop_public', {streaming.source_id},"
        " 'public')",
    )
    source.execute("truncate t")
    streaming.receive_once()
    diary = Diary()
    (result,) = Replayer(load_config(streaming.config), NoDdl(), upkeep=diary).run(once=True)
    assert result.error is None
    assert target.value("select count(*) from shop_public.t") == 0
    assert diary.entries == [("stop", 0.0), ("caught up", "shop"), ("stop", None)]
