"""Tables with keys, identities and columns of all kinds, copied in whatever way suits each."""

from __future__ import annotations

import re

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.meanwhile import again, meanwhile
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import ALONE, Pipeline

#: Of each table its columns but the number ``n``, and an expression that gives row ``g`` its key.
KEYS = {
    "deferrable": ("k int primary key deferrable initially deferred", "g"),
    "any_case": ("k text collate app.any_case primary key", "'Key' || g"),
    "shorter": ("k char(8) primary key", "'k' || g"),
    "moods": ("k app.mood, j int default 1, primary key (j, k)", "('m' || g)::app.mood"),
    "lists": ("k int[] primary key", "array[g, g % 5]"),
    "spans": ("k int4range primary key", "int4range(g, g + 5)"),
    "documents": ("k jsonb primary key", "jsonb_build_object('k', g)"),
    "above": ("k app.positive primary key", "g"),
    "special": ("k numeric primary key", "g / 7.0"),
    "computed": ("k int, c int generated always as (k * 2) stored, primary key (k, c)", "g"),
    "always": ("k int, i int generated always as identity unique, primary key (k)", "g"),
    "apart": (
        "k int primary key, r int4range default 'empty', exclude using gist (r with &&)",
        "g",
    ),
    "upper": ("k text primary key", "'u' || g"),
    "keyless": ("k int", "g"),
    '"Odd "" näme"': ('k int, "a b" int default 4, primary key (k)', "g"),
    "parent": ("k int primary key", "g"),
}
AFTER = [
    "create unique index on app.upper (upper(k))",
    "create unique index on app.upper (n) where n % 2 = 0",
    "alter table app.keyless replica identity full",
    "alter table app.deferrable replica identity full",
    "alter table app.parent drop gone",
    "create table app.child (extra int) inherits (app.parent)",
    "insert into app.child (k, n) select 1000 + g, g from generate_series(1, 9) g",
    "alter table app.child replica identity full",
]
ROWS = 30


@pytest.fixture
def pipeline(source, target, monkeypatch):
    monkeypatch.setattr("pgrepl.resync.choice._LARGE_BYTES", 0)
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 12)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 12)
    moods = ", ".join(f"'m{g}'" for g in range(100, 0, -1))
    source.execute(
        "create schema app",
        "create collation app.any_case (provider = icu, locale = 'und-u-ks-level2',"
        " deterministic = false)",
        f"create type app.mood as enum ({moods})",
        "create domain app.positive as int check (value > 0)",
        *(
            f"create table app.{name} (gone int, n int, {columns}, body text default"
            " repeat('x', 3000)); alter table app."
            f"{name} alter body set storage external;"
            f" insert into app.{name} (k, n) select {key}, g from generate_series(1, {ROWS}) g"
            for name, (columns, key) in KEYS.items()
        ),
        *AFTER,
    )
    pipeline = Pipeline(source, target, {"on_conflict": "apply"})
    pipeline.copy()
    return pipeline


@pytest.mark.soak
def test_copies_are_the_source_in_the_end(pipeline, source, target):
    there = pipeline.schema("app")
    for name in KEYS:
        target.execute(
            f"update only {there}.{name} set n = -n where n % 3 = 0",
            f"delete from only {there}.{name} where n % 7 = 1",
        )
    numbers = iter(range(1, 10**6))

    def write() -> None:
        g = ROWS + next(numbers)
        for name, (_, key) in KEYS.items():
            at = re.sub(r"\bg\b", str(g % 60 + 1), key)
            source.execute(
                f"update only app.{name} set n = n + 100 where n = {g % 25}",
                f"delete from only app.{name} where n = {g % 31 + 100}",
                f"insert into app.{name} (k, n) select {at}, {g} where not exists"
                f" (select from app.{name} where k = {at})",
            )

    def follow() -> None:
        pipeline.receive()
        pipeline.replay(ALONE)

    config = pipeline.config
    options = ResyncOptions(tables=TableSelection.of(["app.*"]), wait_s=60)
    with meanwhile(again(follow, 0.05), again(write, 0.05)):
        report = resync_tables(
            *(config, config.sources[source.name], options, Recorder()),
            lambda copied: TableCopies(config).apply_waiting(
                source.name, [(t.schema_name, t.table_name) for t in copied]
            ),
        )
    assert len(report.tables) == len(KEYS) + 1
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    assert target.rows("select from replication.resync") == []
