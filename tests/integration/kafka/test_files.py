"""A folder of files that grows is a source; what was read must not change."""

from __future__ import annotations

import io
import json
import shutil

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgrepl.errors import SourceError, TargetError
from tests.integration.kafka.test_upsert import put
from tests.support.program import run_pgrepl
from tests.support.streams.debezium_events import recorded
from tests.support.streams.debezium_made import event
from tests.support.streams.kafka import Stream

AVRO = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
}


def write(path, records, mode="a"):
    path.parent.mkdir(exist_ok=True)
    with path.open(mode) as file:
        file.writelines(json.dumps({"key": key, "value": value}) + "\n" for key, value in records)


def avro(*rows):
    sink = io.BytesIO()
    pairs = [{"id": number, "name": name} for number, name in rows]
    fastavro.writer(sink, AVRO, pairs, sync_interval=1, sync_marker=b"0123456789abcdef")
    return sink.getvalue()


def test_files_are_read_as_they_grow_and_refused_when_they_changed(target, tmp_path):
    folder = tmp_path / "drop"
    people, more = folder / "public.people.jsonl", folder / "public.people" / "1.jsonl"
    write(people, [put(1, "ann"), put(2, "bob")])
    stream = Stream(target, tmp_path, kind="files", path=str(folder))
    stream.bring()
    rows = "select id, name from feed_public.people order by id"
    assert stream.rows(rows) == [(1, "ann"), (2, "bob")]

    write(people, [put(2, None), put(3, "cy")])
    write(more, [put(4, "dee")])
    with people.open("a") as file:
        file.write('no JSON\n\n{"key": {"schema": null, "payload":')
    with pytest.raises(SourceError, match=r"people\.jsonl ends inside of a record"):
        stream.receive()
    stream.replay()
    # What is in later files of the table waits for the rest.
    assert stream.rows(rows) == [(1, "ann"), (3, "cy")]
    with people.open("a") as file:
        # No line ends here, but the object does.
        file.write(' {"id": 1}}, "value": null}')
    stream.bring()
    assert stream.rows(rows) == [(3, "cy"), (4, "dee")]
    with people.open("a") as file:
        file.write("\r\n")
    assert stream.receive().change_count == 0
    assert stream.rows("select reason from replication.parked_record") == [("it is not JSON",)]
    assert stream.receive().change_count == 0

    kept = people.read_bytes()
    # Behind us, as long as before and with the same beginning.
    people.write_bytes(kept.replace(b"no JSON", b"NO JSON"))
    with pytest.raises(SourceError, match="has other bytes where it was received"):
        stream.receive()
    write(people, [put(9, "another"), *(put(9, "x" * 500) for _ in range(9))], mode="w")
    with pytest.raises(SourceError, match="begins with other bytes"):
        stream.receive()
    people.write_text("")
    with pytest.raises(SourceError, match="is shorter than"):
        stream.receive()
    people.unlink()
    with pytest.raises(SourceError, match="does not exist any more"):
        stream.receive()
    people.write_bytes(kept)
    assert stream.receive().change_count == 0


def test_avro_and_parquet_files_make_their_tables_each_record_once(target, tmp_path):
    folder = tmp_path / "drop" / "public.people"
    folder.mkdir(parents=True)
    data = avro((1, "ann"), (2, "bob"), (3, None))
    (folder / "1.avro").write_bytes(data[:-10])
    table = pa.table({"id": pa.array([2, 4], pa.int32()), "name": ["bo", "dee"]})
    parquet.write_table(table, tmp_path / "2.parquet")
    whole = (tmp_path / "2.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(whole[:-5])
    stream = Stream(target, tmp_path, kind="files", path=str(folder.parent), key=["id"])
    stream.bring()
    rows = "select id, name from feed_public.people order by id"
    # The last block, and the other file, are not whole.
    assert stream.rows(rows) == [(1, "ann"), (2, "bob")]
    (folder / "1.avro").write_bytes(data)
    (folder / "2.parquet").write_bytes(whole)
    stream.bring()
    # Of one key, what is in the later file wins.
    expected = [(1, "ann"), (2, "bo"), (3, None), (4, "dee")]
    assert stream.rows(rows) == expected
    # More blocks are appended, and a later file comes.
    grown = avro((1, "ann"), (2, "bob"), (3, None), (5, "eve"))
    assert grown.startswith(data)
    (folder / "1.avro").write_bytes(grown)
    write(folder / "3.jsonl", [({"id": 1}, None)])
    stream.bring()
    assert stream.rows(rows) == [*expected[1:], (5, "eve")]
    assert stream.receive().change_count == 0
    parquet.write_table(table.slice(1), folder / "2.parquet")
    with pytest.raises(SourceError, match=r"2\.parquet is another one than it was"):
        stream.receive()


def test_events_that_debezium_sent_again_into_a_later_file_are_passed_over(target, tmp_path):
    folder = tmp_path / "drop" / "public.orders"
    folder.mkdir(parents=True)
    stream = Stream(target, tmp_path, kind="files", path=str(folder.parent), envelope="debezium")
    events = [
        {"key": json.loads(key), "value": json.loads(value)}
        for run in ("run1", "run2", "run4")
        for topic, key, value in recorded(run)
        if topic.endswith(".orders") and key is not None and value is not None
    ]
    assert len(events) > 3
    lines = "".join(json.dumps(own) + "\n" for own in events)
    (folder / "1.jsonl").write_text(lines)
    with pytest.raises(Exception, match="no table"):
        stream.receive()
    target.execute(
        "create table feed_public.orders (id bigint primary key, cid int, amt numeric(10,2))"
    )
    assert stream.receive().change_count == len(events)
    shutil.copy(folder / "1.jsonl", folder / "2.jsonl")
    assert stream.receive().change_count == 0
    stream.replay()
    assert stream.rows("select reason from replication.parked_table") == []


def test_events_in_a_file_that_comes_late_are_refused_and_other_tables_go_on(target, tmp_path):
    """They would be taken for events that came before."""
    stream = Stream(
        target, tmp_path, kind="files", path=str(tmp_path / "drop"), envelope="debezium"
    )

    def bring(name, number, lsn):
        table = name.partition("/")[0].partition(".")[2]
        own = event("c", table=table, after={"id": number}, last_commit=lsn, lsn=lsn, order=1)
        write(tmp_path / "drop" / name, [({"id": number}, own)])

    (tmp_path / "drop").mkdir()
    bring("public.orders/2.jsonl", 2, 200)
    bring("public.others/2.jsonl", 2, 200)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    for table in ("orders", "others"):
        target.execute(f"create table feed_public.{table} (id int primary key)")
    stream.bring()
    bring("public.orders/1.jsonl", 1, 100)
    bring("public.others/2.jsonl", 3, 300)
    with pytest.raises(SourceError, match=r"orders/1.jsonl has events .*orders/2.jsonl"):
        stream.receive()
    stream.replay()
    assert stream.rows("select id from feed_public.orders") == [(2,)]
    assert stream.rows("select id from feed_public.others order by 1") == [(2,), (3,)]
    (tmp_path / "drop/public.orders/1.jsonl").unlink()
    bring("public.orders/3.jsonl", 1, 300)
    stream.bring()
    assert stream.rows("select id from feed_public.orders order by 1") == [(1,), (2,)]


def test_what_needs_a_database_says_so(target, tmp_path):
    stream = Stream(target, tmp_path, kind="files", path=str(tmp_path))
    for arguments in (
        ("receive", "feed", "--until-lsn", "0/1"),
        ("verify", "feed"),
        ("basebackup", "feed"),
    ):
        done = run_pgrepl(*arguments, "--config", stream.path)
        assert done.returncode == 2, done.stderr
        assert 'source "feed"' in done.stderr
