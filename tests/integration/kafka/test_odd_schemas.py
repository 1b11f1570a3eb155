"""Schemas that no table can have, values that do not fit, files that end early: each harms itself.

Records come from files: a broker would show nothing more.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from pgrepl.errors import SourceError, TargetError
from tests.support.streams.kafka import Stream

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def field(
    column: str, kind: str = "string", *, optional: bool = True, **more: Any
) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": column, **more}


def decimal(precision: object, scale: int = 0) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return field("n", "bytes", name=DECIMAL, parameters=parameters)


ID = field("id", "int32", optional=False)


def line(*fields: dict[str, Any], **row: Any) -> str:
    """Return a record whose first field is its key."""
    key, value = ({"type": "struct", "fields": list(own)} for own in (fields[:1], fields))
    first = fields[0]["field"]
    record = {
        "key": {"schema": key, "payload": {first: row.get(first)}},
        "value": {"schema": value, "payload": row},
    }
    return json.dumps(record) + "\n"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "drop"
    made.mkdir()
    return made


@pytest.fixture
def stream(target, folder, tmp_path):
    return Stream(target, tmp_path, kind="files", path=str(folder), key=["id"])


def parked(stream: Stream) -> dict[str, str]:
    """Return why records are parked, by the table that their file is named after."""
    query = "select topic, reason from replication.parked_record"
    return {topic.split(".")[1]: reason for topic, reason in stream.rows(query)}


def bring(stream: Stream, folder, tables: dict[str, list[str]]) -> None:
    for table, lines in tables.items():
        with (folder / f"public.{table}.jsonl").open("a") as file:
            file.writelines(lines)
    result = stream.bring()
    assert (result.error, result.parked) == (None, [])


def test_schema_that_no_table_can_have_is_parked_and_no_part_of_a_statement(stream, folder):
    many = [field(f"c{number}") for number in range(1700)]
    bits = field("n", "bytes", name="io.debezium.data.Bits", parameters={"length": "-3"})
    pairs = {"keys": {"type": "string"}, "values": {"type": "string"}}
    cases = {
        "code": line(ID, decimal("5,2)); create table public.owned (i int); --"), id=1, n="AQ=="),
        "many": line(ID, *many, id=1),
        "bits": line(ID, bits, id=1, n="AQ=="),
        "twice": line(ID, field("n"), field("n"), id=1, n="a"),
        "system": line(ID, field("xmin"), id=1, xmin="a"),
        "unnamed": line(ID, field(""), id=1),
        "keyed": line(field("id", "map", optional=False, **pairs), id={"a": "b"}),
    }
    bring(stream, folder, {"sound": [line(ID, id=1)], **{own: [cases[own]] for own in cases}})
    assert stream.rows("select id from feed_public.sound") == [(1,)]
    assert stream.rows("select to_regclass('public.owned')") == [(None,)]
    found = parked(stream)
    assert found.keys() == cases.keys()
    assert found["code"] == 'column "n": its connect.decimal.precision is no number'
    assert found["many"] == "its schema makes no table: tables can have at most 1600 columns"
    assert found["twice"] == "its schema has two fields of one name"


FITTING: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "integer": (field("n", "int32"), 2**31, -(2**31)),
    "smallint": (field("n", "int16"), -40_000, 1),
    "real": (field("n", "float"), 1e39, 1.5),
    "tiny": (field("n", "double"), "1e-400", 1.5),
    "required": (field("n", optional=False), None, "a"),
    "uuid": (field("n", name="io.debezium.data.Uuid"), "a" * 36, "a" * 32),
    "json": (field("n", name="io.debezium.data.Json"), "{a}", '{"a": 1e999}'),
    "numeric": (decimal(2), "f///", "AQ=="),
    "day": (field("n", name="io.debezium.time.IsoDate"), "2023-02-29Z", "2024-02-29Z"),
    "clock": (field("n", name="io.debezium.time.IsoTime"), "24:00:01Z", "24:00:00Z"),
    "zoned": (
        field("n", name="io.debezium.time.ZonedTimestamp"),
        "2024-02-29T10:34:56.123456789Z",
        "2024-02-29T10:34:56.123456Z",
    ),
    "arrays": (
        field("n", "array", items={"type": "array", "items": {"type": "int32"}}),
        [[1, 2], [3]],
        [[1, 2], [3, None]],
    ),
}


def test_value_that_does_not_fit_parks_its_record_and_not_its_table(stream, folder):
    tables = {
        table: [line(ID, own, id=1, n=bad), line(ID, own, id=2, n=good)]
        for table, (own, bad, good) in FITTING.items()
    }
    tables["tiny"] = [text.replace('"1e-400"', "1e-400") for text in tables["tiny"]]
    bring(stream, folder, tables)
    assert parked(stream).keys() == FITTING.keys()
    for table in FITTING:
        assert stream.rows(f"select id from feed_public.{table}") == [(2,)], table


def test_value_without_a_schema_that_does_not_fit_is_parked_alone(stream, folder, target):
    cases = {
        "integer": (2**31, 1),
        "boolean": ("perhaps", "yes"),
        "numeric(4,2)": (123.0, 12.5),
        "numeric(4,1)": (1.25, 1.5),
        "varchar(3)": ("abcd", "abc"),
        "uuid": ("x", "a" * 32),
        "text not null": (None, "a"),
        "double precision": ("much", "Infinity"),
    }
    names = dict(zip(cases, "abcdefgh", strict=True))
    sound = {names[kind]: good for kind, (_, good) in cases.items()}
    lines = [
        {"id": number, **sound, names[kind]: bad}
        for number, (kind, (bad, _)) in enumerate(cases.items())
    ]
    path = folder / "public.plain.jsonl"
    path.write_text("".join(json.dumps(own) + "\n" for own in [*lines, {"id": 99, **sound}]))
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    columns = ", ".join(f"{name} {kind}" for kind, name in names.items())
    target.execute(f"create table feed_public.plain (id int primary key, {columns})")
    assert stream.bring().parked == []
    assert stream.rows("select id from feed_public.plain") == [(99,)]
    assert len(stream.rows("select from replication.parked_record")) == len(cases)


def test_tables_follow_their_schemas(stream, folder, target):
    wide = field("n", "int64")
    tables = {
        "dropped": [
            line(ID, field("n", optional=False), field("m"), id=1, n="a", m="b"),
            line(ID, field("m"), id=2, m="c"),
        ],
        "keys": [line(ID, field("n"), id=1, n="a"), line(ID, id=2), line(ID, id=1)],
        "optional": [line(ID, field("n", optional=False), id=1, n="a"), line(ID, field("n"), id=2)],
        "wider": [line(ID, field("n", "int32"), id=1, n=1), line(ID, wide, id=2, n=2**40)],
        "digits": [line(ID, decimal(2), id=1, n="AQ=="), line(ID, decimal(5), id=2, n="f/8=")],
        "renamed": [line(ID, field("n"), id=1, n="a"), line(ID, field("m"), id=1, m="b")],
        "viewed": [line(ID, field("n", "int32"), id=1, n=1)],
    }
    bring(stream, folder, tables)
    assert stream.rows("select * from feed_public.dropped order by id") == [
        (1, "a", "b"),
        (2, None, "c"),
    ]
    # A row may be its key alone, and is no delete then.
    assert stream.rows("select * from feed_public.keys order by id") == [(1, None), (2, None)]
    assert stream.rows("select * from feed_public.optional order by id") == [(1, "a"), (2, None)]
    assert stream.rows("select * from feed_public.wider order by id") == [(1, 1), (2, 2**40)]
    assert stream.rows("select id, n::int from feed_public.digits order by id") == [
        (1, 1),
        (2, 32767),
    ]
    assert stream.rows("select * from feed_public.renamed") == [(1, None, "b")]
    # What stands in the way of a wider type is said, and what fits is received all the same.
    target.execute("create view feed_public.shown as select n from feed_public.viewed")
    bring(stream, folder, {"viewed": [line(ID, wide, id=2, n=2)]})
    assert stream.rows("table feed_public.shown order by 1") == [(1,), (2,)]
    assert parked(stream) == {}


def test_file_that_cannot_be_read_on_holds_up_its_table_alone(stream, folder):
    (folder / "public.broken.avro").write_bytes(b"Obj\1 is no file of Avro's")
    (folder / "public.cut.parquet").write_bytes(b"PAR1 is no file of Parquet's PAR1")
    (folder / "public.plain.jsonl").write_text('{"id": 1}\n')
    (folder / "public.sound.jsonl").write_text(line(ID, id=1))
    with pytest.raises((SourceError, TargetError)):
        stream.receive()
    stream.replay()
    assert stream.rows("select id from feed_public.sound") == [(1,)]


def test_reason_with_characters_that_no_text_has_is_kept(stream, folder):
    """The name of a column that is missing is quoted: half a character ended receiving."""
    path = folder / "public.t.jsonl"
    path.write_text('{"id": 1}\n')
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute("create table feed_public.t (id int primary key)")
    path.write_text('{"id": 1}\n{"id": 2, "a\\ud800": 1}\n{"id": 3, "a\\u0000": 1}\n')
    stream.bring()
    assert stream.rows("select id from feed_public.t") == [(1,)]
    found = stream.rows("select reason from replication.parked_record order by record_offset")
    missing = "the target's table has no column"
    assert found == [(rf'{missing} "a\ud800"',), (rf'{missing} "a\x00"',)]


def test_file_that_cannot_be_read_or_named_is_the_fault_of_the_source(stream, folder):
    path = folder / "public.t.jsonl"
    # Not even a superuser may read it.
    path.symlink_to("/proc/sys/vm/drop_caches")
    with pytest.raises(SourceError, match=r"cannot read .*public\.t\.jsonl"):
        stream.receive()
    path.unlink()
    path = folder / os.fsdecode(b"public.\xff.jsonl")
    path.write_text("")
    with pytest.raises(SourceError, match=r"\\udcff\.jsonl is not in UTF-8"):
        stream.receive()
