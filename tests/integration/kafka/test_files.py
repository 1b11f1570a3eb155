"""A folder of JSON lines that grows is a source; what was read must not change."""

from __future__ import annotations

import json

import pytest

from pgrepl.errors import SourceError
from tests.integration.kafka.test_upsert import put
from tests.support.kafka import Stream
from tests.support.program import run_pgrepl


def write(path, records, mode="a"):
    path.parent.mkdir(exist_ok=True)
    with path.open(mode) as file:
        file.writelines(json.dumps({"key": key, "value": value}) + "\n" for key, value in records)


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
        file.write('no JSON\n{"key": half a line')
    stream.bring()
    assert stream.rows(rows) == [(1, "ann"), (3, "cy"), (4, "dee")]
    assert stream.rows("select count(*) from replication.parked_record") == [(1,)]
    assert stream.receive().change_count == 0

    write(people, [put(9, "another"), *(put(9, "x" * 500) for _ in range(9))], mode="w")
    with pytest.raises(SourceError, match="begins with other bytes"):
        stream.receive()
    people.write_text("")
    with pytest.raises(SourceError, match="is shorter than"):
        stream.receive()


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
