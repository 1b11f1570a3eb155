"""Foreign keys that a rule has dropped and made again, whoever is killed meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.program import run_pgrepl, write_config
from tests.support.running.ruled import RuledPipeline, rule

TABLES = """
create schema app;
create table app.orders (tenant int, id int, note text, primary key (tenant, id));
create table app.items (id int primary key, tenant int, item int,
                        constraint fk foreign key (tenant, item) references app.orders);
create table app.more (id int primary key, tenant int, item int,
                       constraint those foreign key (tenant, item) references app.orders);
insert into app.orders select g % 2, g, 'n' from generate_series(1, 60) g;
insert into app.items select g, g % 2, g from generate_series(50, 60) g;
insert into app.more select g, g % 2, g from generate_series(20, 30) g;
"""
WHERE = "tenant = 0"
RULES = [rule("app.orders", where=WHERE)]


def write(folder: Path, pipeline: RuledPipeline, more: str = "") -> Path:
    source, target = pipeline.source, pipeline.target
    path = write_config(folder / "p.toml", target.dsn(), {source.name: source.dsn()})
    with path.open("a", encoding="utf-8") as file:
        file.write(more)
    return path


def foreign_keys(pipeline: RuledPipeline) -> list[tuple[str]]:
    table = f"{pipeline.schema('app')}.orders"
    return pipeline.target.rows(
        f"select conname::text from pg_constraint where confrelid = '{table}'::regclass order by 1"
    )


def kill(path: Path, place: str, *arguments: str) -> None:
    killed = run_pgrepl(*arguments, "--config", path, env={"PGREPL_FAILPOINT": f"{place}:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def assert_even(pipeline: RuledPipeline) -> None:
    assert pipeline.masked_differences("app") == []
    assert pipeline.parked() == []
    marked = "select from replication.source_table where resync_reason is not null"
    assert pipeline.target.rows(marked) == []


@pytest.mark.parametrize(
    "place",
    [
        "parked",
        "references_noted",
        *(
            pytest.param(place, marks=pytest.mark.soak)
            for place in ("references_awaited", "swapped", "late_key_made")
        ),
    ],
)
def test_keys_are_made_again_when_the_rule_goes(source, target, tmp_path, place):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    assert foreign_keys(pipeline) == []
    pipeline.rules = []
    source.execute("update app.orders set note = 'm' where id < 20")
    pipeline.receive()
    path = write(tmp_path, pipeline)
    kill(path, f"resync.{place}", "resync", source.name, "app.orders", "--way", "whole")
    source.execute("insert into app.orders values (1, 99, 'late')")
    pipeline.follow()
    pipeline.follow()
    assert_even(pipeline)
    if place in ("references_noted", "late_key_made"):
        # The table goes on; the rest is done by the next resync of the source.
        pipeline.copy_again("app.items")
    assert foreign_keys(pipeline) == [("fk",), ("those",)]
    assert target.rows("select from replication.left_out where kind like 'foreign key%'") == []


@pytest.mark.parametrize("place", ["receiver.rules_taken", "resync.references_dropped"])
def test_keys_go_when_a_rule_comes(source, target, tmp_path, place):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target)
    pipeline.begin()
    pipeline.follow()
    assert foreign_keys(pipeline) == [("fk",), ("those",)]
    pipeline.rules = RULES
    text = f'[[sources.{source.name}.rules]]\ntables = ["app.orders"]\nwhere = "{WHERE}"\n'
    path = write(tmp_path, pipeline, text)
    source.execute("update app.orders set note = 'm' where id < 20")
    if place == "receiver.rules_taken":
        kill(path, place, "receive", source.name, "--once")
    else:
        pipeline.receive()
        kill(path, place, "resync", source.name, "app.orders")
        assert foreign_keys(pipeline) == []
    source.execute("insert into app.orders values (0, 98, 'in'), (1, 99, 'out')")
    pipeline.follow()
    pipeline.follow()
    assert_even(pipeline)
    assert foreign_keys(pipeline) == []
