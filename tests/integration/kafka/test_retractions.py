"""Records that the target's rows refuse, though they can be read: each is parked alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pgrepl.errors import DdlError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.replayer.shard.apply import TableFailed
from pgrepl.replayer.shard.record_changes import RecordPolicy, apply_records, read_spooled
from pgrepl.replayer.target_table import Tables
from pgrepl.store.spool.spool_rows import PartKey
from tests.support.program import run_pgrepl
from tests.support.streams.debezium_made import event

UNAVAILABLE = "__debezium_unavailable_value"
PARKED = (
    "select split_part(topic, '.', 3), record_offset, reason from replication.parked_record"
    " order by topic, partition, record_offset"
)
MISSING = "on the target 1 row is missing that changes update or delete"


def people(*changes: tuple[str, Mapping[str, Any]], table: str = "people", first: int = 1000):
    """Return events, each in a transaction of its own."""
    for number, (op, row) in enumerate(changes, first):
        rows: dict[str, Any] = {"before" if op == "d" else "after": row}
        place: dict[str, Any] = {"last_commit": number, "lsn": number, "xid": number, "order": 1}
        yield {"id": row.get("id")}, event(op, table=table, **rows, **place)


@pytest.fixture
def make(topics, stream_of):
    """Return a function that makes a source of topics, with a table for each of its names."""

    def made(*definitions: str, envelope: str = "debezium", **settings: Any):
        names = [definition.split()[0] for definition in definitions]
        stream = stream_of(
            *(topics.make(f"public.{name}") for name in names), envelope=envelope, **settings
        )
        # The source is known from its first look at its topics on.
        stream.receive()
        stream.target.execute(
            "create schema feed_public",
            "insert into replication.target_schema"
            " select 'feed_public', source_id, 'public' from replication.source",
            *(f"create table feed_public.{definition}" for definition in definitions),
        )
        return stream

    return made


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_retraction_of_a_row_never_seen_parks_its_record_alone(topics, make, consistency):
    stream = make("people (id int primary key, name text)", "sound (id int primary key)")
    stream.sections["replay"] = {"consistency": consistency}
    stream.write_config()
    wrong, sound = stream.settings["topics"]
    changes = [("c", {"id": n, "name": "new"}) for n in range(20)]
    changes[5] = ("d", {"id": 90})
    changes[11] = ("u", {"id": 91, "name": "gone"})
    changes[12] = ("u", {"id": 3, "name": "cy"})
    changes.append(("d", {"id": 4}))
    topics.send(wrong, people(*changes))
    topics.send(sound, people(("c", {"id": 1}), table="sound"))
    result = stream.bring()
    assert (result.error, result.parked) == (None, [])
    assert stream.rows(PARKED) == [("people", 5, MISSING), ("people", 11, MISSING)]
    rows = "select count(*), string_agg(id::text, ' ') filter (where name = 'cy')"
    assert stream.rows(f"{rows} from feed_public.people") == [(16, "3")]
    assert stream.rows("select id from feed_public.sound") == [(1,)]
    # The row that the update is about is there now.
    stream.target.execute("insert into feed_public.people values (91, 'old')")
    done = run_pgrepl("parked", "retry", "feed", "--records", "--config", stream.path)
    assert done.stdout.splitlines()[-1] == "2 received, 0 superseded, 0 parked"
    stream.replay()
    assert stream.rows("select name from feed_public.people where id = 91") == [("gone",)]
    assert stream.rows(PARKED) == [("people", 5, MISSING)]
    place = (wrong, "0", "5")
    done = run_pgrepl("parked", "forget", "feed", *place, "--yes", "--config", stream.path)
    assert (done.returncode, stream.rows(PARKED)) == (0, [])
    # What follows is applied as before.
    topics.send(wrong, people(("d", {"id": 91}), first=2000))
    stream.bring()
    assert stream.rows("select from feed_public.people where id = 91") == []


def test_row_without_a_key_that_is_not_there_parks_its_record_alone(topics, make):
    stream = make("plain (name text)")
    (topic,) = stream.settings["topics"]
    names = [("c", {"name": "a"}), ("d", {"name": "b"}), ("c", {"name": "c"}), ("d", {"name": "a"})]
    topics.send(topic, [(None, own) for _, own in people(*names, table="plain")])
    assert stream.bring().parked == []
    assert stream.rows(PARKED) == [("plain", 1, MISSING)]
    assert stream.rows("select name from feed_public.plain") == [("c",)]


def test_both_records_of_a_move_are_parked(topics, make):
    stream = make("people (id int primary key, name text)")
    (topic,) = stream.settings["topics"]
    place: dict[str, Any] = {"table": "people", "last_commit": 2000, "lsn": 2001}
    moved = [
        ({"id": 8}, event("d", before={"id": 8}, order=1, **place)),
        ({"id": 8}, None),
        ({"id": 9}, event("c", after={"id": 9, "name": "moved"}, order=2, **place)),
    ]
    topics.send(topic, people(("c", {"id": 1, "name": "ann"})))
    topics.send(topic, moved)
    topics.send(topic, people(("c", {"id": 2, "name": "bob"}), first=3000))
    assert stream.bring().parked == []
    assert stream.rows(PARKED) == [("people", 1, MISSING), ("people", 3, MISSING)]
    assert stream.rows("select id from feed_public.people order by 1") == [(1,), (2,)]
    # Received again: the new row is whole. The old one was never seen: no tombstone hides that.
    done = run_pgrepl("parked", "retry", "feed", "--records", "--config", stream.path)
    assert done.stdout.splitlines()[-1] == "2 received, 0 superseded, 0 parked"
    stream.replay()
    assert stream.rows("select id from feed_public.people order by 1") == [(1,), (2,), (9,)]
    assert stream.rows(PARKED) == [("people", 1, MISSING)]


@pytest.mark.parametrize("envelope", ["debezium", "debezium-upsert"])
def test_move_that_was_refused_leaves_no_row_under_the_old_key_when_it_is_received(
    topics, make, envelope
):
    definition = "people (id int primary key, name text check (name <> 'evil'), note text)"
    stream = make(definition, envelope=envelope)
    (topic,) = stream.settings["topics"]
    rows = [("c", {"id": n, "name": "good", "note": f"note {n}"}) for n in (1, 2)]
    topics.send(topic, people(*rows))
    for number, note in ((1, UNAVAILABLE), (2, "sent")):
        place: dict[str, Any] = {"table": "people", "last_commit": 2000 + number, "lsn": 2001}
        moved = {"id": 10 + number, "name": "evil", "note": note}
        topics.send(topic, [({"id": number}, event("d", before={"id": number}, order=1, **place))])
        topics.send(topic, [({"id": number}, None)])
        topics.send(topic, [({"id": moved["id"]}, event("c", after=moved, order=2, **place))])
    stream.bring()
    everything = "table feed_public.people order by 1"
    assert stream.rows("select record_offset from replication.parked_record order by 1") == [
        (2,),
        (4,),
        (5,),
        (7,),
    ]
    assert stream.rows(everything) == [(1, "good", "note 1"), (2, "good", "note 2")]
    stream.target.execute("alter table feed_public.people drop constraint people_name_check")
    done = run_pgrepl("parked", "retry", "feed", "--records", "--config", stream.path)
    assert done.stdout.splitlines()[-1] == "4 received, 0 superseded, 0 parked"
    stream.replay()
    assert stream.rows(everything) == [(11, "evil", "note 1"), (12, "evil", "sent")]
    assert stream.rows(PARKED) == []


def test_what_a_constraint_refuses_parks_its_record_alone(topics, make):
    stream = make("people (id int primary key, name text check (name <> 'evil'))")
    (topic,) = stream.settings["topics"]
    rows = [("c", {"id": n, "name": "evil" if n == 2 else "good"}) for n in range(5)]
    topics.send(topic, people(*rows, ("d", {"id": 0})))
    stream.bring()
    # A row that is not there cannot be changed.
    topics.send(topic, people(("u", {"id": 2, "name": "good"}), first=2000))
    assert stream.bring().parked == []
    (refused, missing) = stream.rows(PARKED)
    assert refused[:2] == ("people", 2)
    assert "people_name_check" in refused[2]
    assert missing == ("people", 6, MISSING)
    assert stream.rows("select id from feed_public.people order by 1") == [(1,), (3,), (4,)]


def test_row_that_leaves_a_value_open_and_is_not_there_parks_its_record_alone(topics, make):
    stream = make("people (id int primary key, name text, n int)", envelope="debezium-upsert")
    (topic,) = stream.settings["topics"]
    left_open = {"id": 2, "name": UNAVAILABLE, "n": 2}
    rows = [("c", {"id": 1, "name": "ann", "n": 1}), ("u", left_open)]
    topics.send(topic, people(*rows, ("u", {"id": 1, "name": UNAVAILABLE, "n": 5})))
    assert stream.bring().parked == []
    assert stream.rows(PARKED) == [("people", 1, MISSING)]
    assert stream.rows("table feed_public.people") == [(1, "ann", 5)]


def test_record_is_parked_though_its_segment_has_a_truncate(topics, make):
    stream = make("people (id int primary key)")
    (topic,) = stream.settings["topics"]
    rows = [("c", {"id": 1}), ("d", {"id": 9}), ("t", {}), ("d", {"id": 1}), ("c", {"id": 2})]
    events = [(None if own["op"] == "t" else key, own) for key, own in people(*rows)]
    topics.send(topic, events)
    assert stream.bring().parked == []
    assert stream.rows(PARKED) == [("people", 1, MISSING), ("people", 3, MISSING)]
    assert stream.rows("select id from feed_public.people") == [(2,)]


def test_records_that_waited_for_a_lock_are_parked_alone(topics, make):
    stream = make("people (id int primary key)")
    (topic,) = stream.settings["topics"]
    topics.send(topic, people(("c", {"id": 1})))
    stream.bring()
    topics.send(topic, people(("d", {"id": 9}), ("c", {"id": 2}), first=2000))
    stream.receive()
    with connect(stream.config.target.endpoint, "test") as other:
        other.execute("begin")
        other.execute("lock feed_public.people in access exclusive mode")
        stream.replay()
    assert stream.rows("select kind from replication.parked_table") == [("locked",)]
    stream.replay()
    assert stream.rows(PARKED) == [("people", 1, MISSING)]
    assert stream.rows("select id from feed_public.people order by 1") == [(1,), (2,)]


def test_many_that_are_refused_fill_no_table_of_locks(topics, make):
    """What is staged for them is staged in one place, whatever number of tries that takes."""
    stream = make("people (id int)")
    (topic,) = stream.settings["topics"]
    # Not new rows alone, which need no staging.
    rows = [(op, {"id": n}) for n in range(60) for op in ("c", "d", "c")]
    rows = [own for n in range(20) for own in (*rows[9 * n : 9 * n + 9], ("d", {"id": -1}))]
    topics.send(topic, [(None, own) for _, own in people(*rows)])
    stream.receive()
    name = ("public", "people")
    with connect(stream.config.target.endpoint, "test") as connection, connection.transaction():
        table = Tables(connection, 1, Lsn(0)).look_up(name)
        policy = RecordPolicy(1, "park", "error")
        found = connection.execute("select seq, bucket, part from replication.raw_messages")
        keys = [PartKey(*row) for row in found.fetchall()]
        failed = TableFailed("refused", "23514")
        spooled = read_spooled(connection, 1, name, keys)
        assert apply_records(connection, policy, (name, table.shape), spooled, failed) == 20
        locks = "select count(distinct relation) from pg_locks where pid = pg_backend_pid()"
        ((count,),) = connection.execute(locks).fetchall()
    assert count < 60


def test_replay_that_is_to_stop_names_the_record(topics, make):
    stream = make("people (id int primary key)")
    stream.sections["replay"] = {"on_error": "stop"}
    stream.write_config()
    (topic,) = stream.settings["topics"]
    topics.send(topic, people(("c", {"id": 1}), ("d", {"id": 9})))
    stream.receive()
    with pytest.raises(DdlError, match=rf"topic {topic}, partition 0, offset 1: {MISSING}"):
        stream.replay()
    assert stream.rows("select from feed_public.people") == []


def test_table_that_is_not_there_is_parked_as_a_whole(topics, make):
    stream = make("people (id int primary key)")
    (topic,) = stream.settings["topics"]
    topics.send(topic, people(("c", {"id": 1}), ("d", {"id": 9})))
    stream.receive()
    stream.target.execute("drop table feed_public.people")
    assert stream.replay().parked == [("public", "people")]
    stream.target.execute("create table feed_public.people (id int primary key)")
    done = run_pgrepl("parked", "retry", "feed", "public.people", "--config", stream.path)
    assert done.returncode == 0
    assert stream.rows(PARKED) == [("people", 1, MISSING)]
    assert stream.rows("select id from feed_public.people") == [(1,)]
