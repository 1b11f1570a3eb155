"""Records that could not be read are received when they can be, unless a later one was."""

from __future__ import annotations

import json

import pytest

from pgrepl.errors import TargetError
from pgrepl.postgres.advisory_locks import receive_lock, try_lock
from pgrepl.postgres.connect import connect
from tests.support.program import run_pgrepl
from tests.support.streams.kafka import Stream


def retry(stream, *arguments):
    done = run_pgrepl("parked", "retry", "feed", *arguments, "--config", stream.path)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_retry_receives_what_nothing_came_after(topics, stream_of):
    topic = topics.make("public.plain", partitions=1)
    topics.send(topic, [({"id": 0}, {"n": 0})])
    stream = stream_of(topic)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute("create table feed_public.plain (id int primary key, n int)")
    more = [({"id": number}, {"n": number, "more": "m"}) for number in (1, 2, 3)]
    topics.send(topic, [*more, (b"{", b"not JSON"), ({"id": 2}, {"n": 22}), ({"id": 4}, None)])
    stream.bring()
    assert stream.rows("select count(*) from replication.parked_record") == [(4,)]
    # Nothing has changed.
    code, lines, _ = retry(stream, "--records")
    assert (code, lines[-1]) == (50, "0 received, 1 superseded, 3 parked")
    assert (
        lines[1]
        == f"{topic} 0 2: superseded: a later record of its key is at partition 0, offset 5"
    )

    stream.target.execute("alter table feed_public.plain add column more text")
    assert retry(stream, "--record", topic, "0", "99")[0] == 2
    assert retry(stream, "--record", topic, "0", "1")[:2] == (
        0,
        ["1 received, 0 superseded, 0 parked"],
    )
    with connect(stream.config.target.endpoint, "test") as connection:
        assert try_lock(connection, receive_lock("feed"))
        code, _, said = retry(stream, "--records")
        assert (code, "another receiver" in said) == (75, True)
    code, lines, _ = retry(stream, "--records", "--json")
    found = json.loads("\n".join(lines))
    assert (code, found["received"], found["parked"]) == (50, 1, 1)
    stream.replay()
    assert stream.rows("select id, n, more from feed_public.plain order by id") == [
        (0, 0, None),
        (1, 1, "m"),
        (2, 22, None),
        (3, 3, "m"),
    ]
    # What follows goes on as if nothing had been.
    topics.send(topic, [({"id": 1}, {"n": 5})])
    stream.bring()
    assert stream.rows("select n, more from feed_public.plain where id = 1") == [(5, None)]


@pytest.mark.parametrize("place", ["receiver.before_commit", "records.received"])
def test_killed_retry_receives_each_record_once(topics, stream_of, place):
    topic = topics.make("public.plain", partitions=1)
    topics.send(topic, [({"id": 0}, {"n": 0})])
    stream = stream_of(topic)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute("create table feed_public.plain (id int primary key, n int)")
    topics.send(topic, [({"id": number}, {"n": number, "more": "m"}) for number in (1, 2)])
    stream.bring()
    stream.target.execute("alter table feed_public.plain add column more text")
    arguments = ("parked", "retry", "feed", "--records", "--config", stream.path)
    killed = run_pgrepl(*arguments, env={"PGREPL_FAILPOINT": f"{place}:kill"})
    assert killed.returncode == -9
    left = 0 if place == "records.received" else 2
    assert stream.rows("select count(*) from replication.parked_record") == [(left,)]
    code, lines, _ = retry(stream, "--records")
    assert (code, lines) == (0, [f"{left} received, 0 superseded, 0 parked"])
    stream.replay()
    assert stream.rows("select id, n, more from feed_public.plain order by id") == [
        (0, 0, None),
        (1, 1, "m"),
        (2, 2, "m"),
    ]


def test_retry_reads_later_files_of_the_table_too(target, tmp_path):
    folder = tmp_path / "drop" / "public.plain"
    folder.mkdir(parents=True)
    stream = Stream(target, tmp_path, kind="files", path=str(folder.parent), key=["id"])
    lines = [{"id": number, "n": 1, "more": "m"} for number in (1, 2)]
    (folder / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "2.jsonl").write_text('{"id": 2, "n": 2}\n')
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    target.execute("create table feed_public.plain (id int primary key, n int)")
    stream.bring()
    target.execute("alter table feed_public.plain add column more text")
    code, lines, _ = retry(stream, "--records")
    assert (code, lines[-1]) == (0, "1 received, 1 superseded, 0 parked")
    stream.replay()
    assert stream.rows("table feed_public.plain order by id") == [(1, 1, "m"), (2, 2, None)]
