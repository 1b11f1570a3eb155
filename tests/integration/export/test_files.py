"""Exports into files: every change once, in Debezium's form, whoever is killed."""

from __future__ import annotations

import json

import pytest

from pgrepl.ddl_capture import install
from pgrepl.errors import ConfigError, DdlError, SpoolError, UsageError
from pgrepl.status import read_status
from pgrepl.status.target_facts import read_target
from tests.support.program import run_pgrepl
from tests.support.streams.exporting import FileExport

ORDERS = "create table orders (id int primary key, note text, n numeric)"
BODY = (
    "create table bodies (id int primary key, body text, n int);"
    " alter table bodies alter body set storage external"
)
BAG = "create table bag (x int, y text); alter table bag replica identity full"


def shown(records):
    """Return what events say: kind, key, before, after."""
    return [
        (
            record["value"]["op"],
            record["key"],
            record["value"]["before"],
            record["value"]["after"],
        )
        for record in records
    ]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_changes_are_exported_once_in_debezium_s_form(live_of, tmp_path, plugin, has_text_numbers):
    nan = "NaN" if plugin == "pgoutput" or has_text_numbers else None
    live = live_of(plugin, ORDERS, BODY, BAG)
    live.source.execute("insert into app.orders values (0, 'before', 0)")
    live.follow()
    export = FileExport(live, tmp_path / "out")
    assert export.run().record_count == 0
    live.source.execute(
        "begin; insert into app.orders values (1, 'a', 1.50), (2, null, 'NaN');"
        " update app.orders set n = 2 where id = 1; commit"
    )
    live.source.execute(
        "begin; update app.orders set id = 3 where id = 2; delete from app.orders where id = 1;"
        " insert into app.bag values (1, 'x'), (1, 'x'); commit"
    )
    live.source.execute("insert into app.bodies values (1, repeat('long', 2000), 1)")
    live.source.execute("update app.bodies set n = 2")
    live.source.execute("delete from app.bag where ctid = (select min(ctid) from app.bag)")
    live.source.execute("truncate app.bodies")
    live.receive()
    # Replay passes first, and the spool is kept for the export.
    live.replay()
    assert live.target.value("select count(*) from replication.raw_messages") > 0
    export.run()
    assert shown(export.records("app.orders")) == [
        ("c", {"id": 1}, None, {"id": 1, "note": "a", "n": "1.50"}),
        ("c", {"id": 2}, None, {"id": 2, "note": None, "n": nan}),
        ("u", {"id": 1}, None, {"id": 1, "note": "a", "n": "2"}),
        ("d", {"id": 2}, {"id": 2, "note": None, "n": None}, None),
        ("c", {"id": 3}, None, {"id": 3, "note": None, "n": nan}),
        ("d", {"id": 1}, {"id": 1, "note": None, "n": None}, None),
    ]
    assert shown(export.records("app.bag")) == [
        ("c", None, None, {"x": 1, "y": "x"}),
        ("c", None, None, {"x": 1, "y": "x"}),
        ("d", None, {"x": 1, "y": "x"}, None),
    ]
    assert shown(export.records("app.bodies"))[1:] == [
        ("u", {"id": 1}, None, {"id": 1, "body": "__debezium_unavailable_value", "n": 2}),
        ("t", None, None, None),
    ]
    ends = [r["value"] for r in export.records("_transaction") if r["value"]["status"] == "END"]
    assert [end["event_count"] for end in ends] == [3, 5, 1, 1, 1, 1]
    orders = [r["value"]["transaction"]["total_order"] for r in export.records("app.orders")]
    assert orders[:3] == [1, 2, 3]
    # Nothing is left to do, and what all have passed is not kept.
    files = export.files()
    assert export.run().record_count == 0
    assert export.files() == files
    live.follow()
    assert live.target.value("select count(*) from replication.raw_messages") == 0


def write_some(live):
    for number in range(1, 4):
        live.source.execute(
            f"begin; insert into app.orders values ({number}, 'n', {number});"
            f" insert into app.bag values ({number}, 'y'); commit"
        )
        live.receive()
    live.replay()


PLACES = [
    "export.before_prepare",
    "export.after_prepare",
    "export.before_commit",
    "export.between_files",
    "export.after_commit",
]


def test_export_that_dies_anywhere_loses_and_repeats_nothing(live_of, tmp_path):
    live = live_of("wal2json", ORDERS, BAG)
    live.source.execute("insert into app.orders values (0, 'there', 0)")
    live.follow()
    export = FileExport(live, tmp_path / "out", has_snapshot=True, batch_changes=2)
    # First in the snapshot, then in batches of a transaction each.
    for place in ("export.consumer_added", "export.in_snapshot", *PLACES):
        assert export.run_until_killed(f"{place}:kill")
        if place in PLACES[3:]:
            # The snapshot was noted before: the next run has made the rest of it visible.
            break
    export.run()
    assert shown(export.records("app.orders")) == [
        ("r", {"id": 0}, None, {"id": 0, "note": "there", "n": "0"})
    ]
    write_some(live)
    for place in PLACES:
        # There is more to do at each: three batches, one of which an earlier run leaves half done.
        assert export.run_until_killed(f"{place}:kill"), place
        for path in export.folder.glob("*/day=*/*"):
            assert path.read_text(encoding="utf-8").endswith("}\n")
    export.run()
    assert [r["key"]["id"] for r in export.records("app.orders")] == [0, 1, 2, 3]
    assert [r["value"]["after"]["x"] for r in export.records("app.bag")] == [1, 2, 3]
    ends = [r["value"] for r in export.records("_transaction") if r["value"]["status"] == "END"]
    assert [end["event_count"] for end in ends] == [2, 2, 2]
    # Nothing is left beside the files.
    assert [name for name in export.files() if name.startswith(".")] == [".files/batch"]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_schema_of_events_changes_in_its_place(live_of, tmp_path, plugin):
    live = live_of(plugin, ORDERS)
    install(live.config.sources["shop"])
    live.follow()
    export = FileExport(live, tmp_path / "out", tables=("app.*",))
    export.run()
    live.source.execute("insert into app.orders values (1, 'a', 1)")
    live.source.execute(
        "begin; alter table app.orders add colour text default 'red', drop n;"
        " insert into app.orders values (2, 'b', 'blue'); commit"
    )
    live.source.execute("create table app.fresh (k int primary key, at date)")
    live.source.execute("insert into app.fresh values (1, 'infinity')")
    live.source.execute("alter table app.orders rename colour to hue")
    live.source.execute("update app.orders set hue = 'green' where id = 1")
    # The target is ahead of the export, and behind it the next time.
    live.follow()
    export.run()
    live.source.execute("alter table app.fresh add z int")
    live.source.execute("insert into app.fresh values (2, '2024-02-29', 7)")
    live.receive()
    export.run()
    assert [r["value"]["after"] for r in export.records("app.orders")] == [
        {"id": 1, "note": "a", "n": "1"},
        {"id": 2, "note": "b", "colour": "blue"},
        {"id": 1, "note": "a", "hue": "green"},
    ]
    assert [r["value"]["after"] for r in export.records("app.fresh")] == [
        {"k": 1, "at": "infinity"},
        {"k": 2, "at": "2024-02-29Z", "z": 7},
    ]


def problems(live):
    status = read_status(live.config, list(live.config.sources.values()))
    return {problem.kind: problem.message for problem in status.sources[0].problems}


def test_rows_that_change_without_a_change_in_the_spool_are_said(live_of, tmp_path):
    live = live_of("wal2json", ORDERS, "create table loose (n numeric)")
    live.follow()
    FileExport(live, tmp_path / "out", consumer="whole").run()
    FileExport(live, tmp_path / "others", tables=("app.orders",), consumer="others").run()
    # No replica identity: the source does not send which row it is.
    live.source.execute("insert into app.loose values (1)")
    live.source.execute("update app.loose set n = 2")
    live.follow()
    told = problems(live)["consumer-incomplete"]
    assert 'consumer "whole" does not have everything of app.loose' in told
    snapshot = FileExport(live, tmp_path / "snapshot", has_snapshot=True)
    with pytest.raises(DdlError, match=r"app\.loose has to be copied again"):
        snapshot.run()


def test_consumer_that_does_not_move_is_let_go_and_told(live_of, tmp_path):
    live = live_of("wal2json", ORDERS)
    live.follow()
    export = FileExport(live, tmp_path / "out")
    export.run()
    live.source.execute("insert into app.orders values (1, 'a', 1)")
    live.follow()
    (facts,) = read_target(live.config.target.endpoint, ["shop"]).values()
    (consumer,) = facts.consumers
    assert (consumer.name, consumer.state, consumer.segment_count) == ("files", "active", 1)
    assert min(consumer.byte_count, consumer.lag_bytes) > 0
    live.target.execute("update replication.consumer set moved_at = now() - interval '6 days'")
    assert "consumer-in-danger" in problems(live)
    live.target.execute("update replication.consumer set moved_at = now() - interval '8 days'")
    live.source.execute("insert into app.orders values (2, 'b', 1)")
    live.follow()
    assert live.target.value("select count(*) from replication.raw_messages") == 0
    with pytest.raises(SpoolError, match=r"let go .* not in the spool any more"):
        export.run()
    assert "consumer-lost" in problems(live)
    # It starts over on request, and in an empty folder.
    (tmp_path / "out" / "other").touch()
    with pytest.raises(ConfigError, match="not empty"):
        export.run(restart=True)
    again = FileExport(live, tmp_path / "again", has_snapshot=True)
    again.run(restart=True)
    assert sorted(r["key"]["id"] for r in again.records("app.orders")) == [1, 2]
    with pytest.raises(UsageError, match="other options"):
        FileExport(live, tmp_path / "again", envelope="upsert").run()


def test_upserts_follow_a_snapshot(live_of, tmp_path):
    live = live_of("wal2json", ORDERS, BAG)
    live.source.execute("insert into app.orders values (1, 'a', 1), (2, 'b', 1)")
    live.follow()
    with pytest.raises(UsageError, match=r"without a key .*app\.bag"):
        FileExport(live, tmp_path / "all", envelope="upsert").run()
    export = FileExport(
        live, tmp_path / "out", envelope="upsert", tables=("app.orders",), has_snapshot=True
    )
    export.run(restart=True)
    live.source.execute("update app.orders set id = 3, note = 'c' where id = 2")
    live.source.execute("delete from app.orders where id = 1")
    live.source.execute("insert into app.bag values (1, 'x')")
    live.follow()
    export.run()
    assert export.records() == [
        {"key": {"id": 1}, "value": {"id": 1, "note": "a", "n": "1"}},
        {"key": {"id": 2}, "value": {"id": 2, "note": "b", "n": "1"}},
        {"key": {"id": 2}, "value": None},
        {"key": {"id": 3}, "value": {"id": 3, "note": "c", "n": "1"}},
        {"key": {"id": 1}, "value": None},
    ]
    live.source.execute("truncate app.orders")
    live.follow()
    with pytest.raises(SpoolError, match="TRUNCATE"):
        export.run()


def test_program_exports(live_of, tmp_path):
    live = live_of("wal2json", ORDERS)
    live.follow()
    command = ["export", "shop", "--config", live.folder / "pgrepl.toml", "--to", tmp_path / "out"]
    assert run_pgrepl(*command, "--once").returncode == 0
    live.source.execute("insert into app.orders values (1, 'a', 1)")
    live.follow()
    done = run_pgrepl(*command, "--once", "--json")
    assert json.loads(done.stdout)["records"] == 3
    assert run_pgrepl(*command, "--forget").stdout == "consumer files of source shop: forgotten\n"
    assert run_pgrepl(*command, "--keep", "soon").returncode == 2
