"""Keys and identities of all kinds, copied in chunks while rows come, go and change their keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from pgrepl.ddl_capture import install
from pgrepl.errors import DdlError
from tests.support.running.live import Live

#: Of each table its columns, and an expression that gives row ``g`` its key.
TABLES = {
    "whole_row": ("k int primary key", "g"),
    "by_index": ("k int not null, i int generated always as identity primary key", "g"),
    "special": ("k numeric primary key", "coalesce(nullif(g / 8.0, 3 / 8.0), {nan})"),
    "floats": ("k float8 primary key", "coalesce(nullif(g, 2) / 3.0::float8, {nan})"),
    "times": (
        "k timestamptz primary key",
        "coalesce('2020-03-29 00:59Z'::timestamptz + nullif(g, 2) * interval '7 min', 'infinity')",
    ),
    "uuids": ("k uuid primary key", "md5(g::text)::uuid"),
    "texts": ('k varchar(20) collate "C" primary key', "chr(32 + g % 90) || E'\\t''\\\\' || g"),
    "pairs": ('k text collate "C", j int default 1, primary key (j, k)', "'p' || g"),
    "bits": ("k bit(10) primary key", "g::bit(10)"),
    "spans": ("k interval primary key", "g * interval '1 month' - interval '3 days'"),
}
#: wal2json does not carry NaN.
NAN = {"wal2json": "-1", "pgoutput": "'NaN'"}
AFTER = {
    "whole_row": "alter table {}.whole_row replica identity full",
    "by_index": (
        "create unique index by_k on {0}.by_index (k);"
        " alter table {0}.by_index replica identity using index by_k"
    ),
}
ROWS = 36


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 12)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 12)


@pytest.mark.parametrize("plugin", [pytest.param("wal2json", marks=pytest.mark.soak), "pgoutput"])
def test_rows_of_all_kinds_of_keys_are_the_source_in_the_end(source, target, tmp_path, plugin):
    live = Live(source, target, tmp_path, plugin).begin(
        *(
            f"create table {name} ({columns}, n int, body text default repeat('x', 3000))"
            for name, (columns, _) in TABLES.items()
        )
    )
    for side, schema in ((source, "app"), (target, "app_copy")):
        side.execute(*(after.format(schema) for after in AFTER.values()))
    for name, (_, key) in TABLES.items():
        source.execute(
            f"alter table app.{name} alter body set storage external",
            f"insert into app.{name} (k, n) select {key.format(nan=NAN[plugin])}, g"
            f" from generate_series(1, {ROWS}) g",
        )
    live.follow()
    for name in TABLES:
        target.execute(
            f"update app_copy.{name} set n = 0 where n % 3 = 0",
            f"delete from app_copy.{name} where n % 7 = 1",
        )
        live.resync(name, pause=_writing(live, name))
    live.follow()
    assert {name: live.differences(name) for name in TABLES} == {name: set() for name in TABLES}
    assert target.rows("select from replication.resync") == []


def _writing(live: Live, name: str) -> Callable[[float], None]:
    """Return a pause in which rows are written, the stream lagging by one of them."""
    key = TABLES[name][1].format(nan=NAN[live.plugin])
    calls = 0

    def pause(_: float) -> None:
        nonlocal calls
        calls += 1
        live.receive()
        if calls < 5:
            live.source.execute(
                # From one end of the keys to the other, with a long value that is not sent.
                f"with v as (select {key} as k from (select {40 + calls} as g) x)"
                f" update app.{name} t set k = v.k, n = n + 1000 from v where t.n = {calls}",
                f"begin; delete from app.{name} where n = {ROWS - calls}; savepoint s;"
                f" update app.{name} set n = -1; rollback to s;"
                f" update app.{name} set n = n + 500 where n between 12 and 15; commit",
            )
        live.replay()

    return pause


@pytest.mark.parametrize("is_captured", [True, False])
def test_identity_that_changes_meanwhile_does_not_start_it_over_for_ever(
    source, target, tmp_path, is_captured
):
    live = Live(source, target, tmp_path).begin(
        "create table t (id int primary key, k int not null constraint t_k unique, n int)"
    )
    if is_captured:
        install(live.config.source("shop"))
    source.execute(f"insert into app.t select g, -g, g from generate_series(1, {ROWS}) g")
    live.follow()
    target.execute("update app_copy.t set n = 0")
    passes = iter(range(100))

    def write(_: float) -> None:
        if next(passes) == 1:
            source.execute(
                "begin; alter table app.t replica identity using index t_k;"
                " update app.t set n = n + 1 where id = 1; commit"
            )
        # As long as it lasts: each of them comes with the new identity.
        source.execute("update app.t set n = n + 1 where id = 2")
        live.follow()

    with nullcontext() if is_captured else pytest.raises(DdlError, match="another key"):
        live.resync("t", pause=write)
    live.follow()
    assert not is_captured or live.differences("t") == set()
